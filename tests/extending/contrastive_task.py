"""A task from outside: the two halves of a text find each other among all texts of the global batch (InfoNCE).

van den Oord et al. 2018, equation 4, both ways as in Radford et al. 2021 (figure 3), with a learned temperature:

    u_b, v_b = f(first half of text b), f(second half)      f: the model, whose outputs are scaled to length 1
    s_bc     = exp(a) u_b . v_c                             a: learned
    L        = -1/2 sum_b (log softmax_c(s_bc)[b] + log softmax_c(s_cb)[b])

The texts of the other rows are what a half is told apart from, so a row has no loss of its own: `represent` is of rows, and
`pair_loss` of the whole batch, whatever devices and micro-batches hold it.

    python launch.py --config=tests/extending/contrastive_task.py --workdir=runs/halves
    python launch.py --config=tests/extending/contrastive_task.py --workdir=runs/halves --mode=eval
"""

import dataclasses

import jax
import jax.numpy as jnp

from seqjax import config as configs
from seqjax import fields, tasks


@dataclasses.dataclass(frozen=True)
class Options:
    """Fields of config.train that the task owns; `Halves.scale` takes the value."""

    scale: float = fields.field(5.0, 'Scale of the scores before the first step.', fields.POSITIVE)


@tasks.register('halves')
@dataclasses.dataclass(frozen=True)
class Halves(tasks.Task):
    """See above. batch: inputs [B, T], lengths [B] and weights [B], 0 for rows that only fill up the batch."""

    scale: float = 5.0

    options = Options
    data = 'labelled'
    target = 'class'          # it can be learned from every set of classes, which are not used
    output_kind = 'row'
    unit = 'nats per text'

    @classmethod
    def head(cls, classes):
        return dict(outputs=16, per_step=False)  # of an embedding, and not of classes

    def init(self, key, batch):
        variables = super().init(key, batch)
        return {**variables, 'params': {**variables['params'], 'log_scale': jnp.log(self.scale)}}

    def represent(self, params, batch, key=None):
        """dict(first, second), each [B, 16] and of length 1."""
        T, half = batch['inputs'].shape[1], (batch['lengths'] + 1) // 2
        later = (jnp.arange(T) + half[:, None]) % T                                        # [B, T]
        rows = dict(first=dict(inputs=batch['inputs'], lengths=half),
                    second=dict(inputs=jnp.take_along_axis(batch['inputs'], later, axis=1), lengths=batch['lengths'] - half))
        keys = (None, None) if key is None else jax.random.split(key)
        return {name: _unit(self.outputs(params, half, key)) for (name, half), key in zip(rows.items(), keys)}

    def pair_loss(self, params, outputs, batch):
        there = batch['weights'] > 0
        scores = jnp.exp(params['log_scale']) * outputs['first'] @ outputs['second'].T     # [B, B]
        scores = jnp.where(there[:, None] & there, scores, -1e9)
        log_p = sum(jnp.diagonal(jax.nn.log_softmax(scores, axis)) for axis in (0, 1)) / 2  # [B]
        right = jnp.argmax(scores, axis=1) == jnp.arange(len(scores))
        count = lambda values: jnp.where(there, values, 0).sum()
        return tasks.Sums(loss=-count(log_p), weight=there.sum().astype(jnp.float32),
                          metrics=dict(accuracy=count(right.astype(jnp.float32))))


def _unit(x):
    return x / jnp.sqrt((x ** 2).sum(axis=-1, keepdims=True) + 1e-6)


def get_config():
    config = configs.defaults(model='reader', task='halves', source='cldr')
    config.data.update(batch_size=16, batching='pad', tokenizer='char', train_examples=400, max_length=16)
    config.model.update(encoder='conv', width=16, kernel_size=3, pooling='mean')
    config.train.update(steps=6, eval_every=3, eval_batches=2, save_every=6)
    config.optimizer.update(warmup_steps=1)
    return config
