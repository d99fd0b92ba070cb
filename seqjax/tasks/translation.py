"""Translation: another sequence for every sequence, token by token."""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.special_tokens import START
from seqjax.tasks.options import TeacherForcing
from seqjax.tasks.scheduled_sampling import Teacher, mixed_inputs
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Input, Task


@dataclasses.dataclass(frozen=True)
class Translation(Task):
    """-sum_t log P(target_t | source, targets before t), over the targets whose weight is 1.

    model: a linen module, source tokens [B, S], lengths [B], targets [B, T] -> logits [B, T, V]; see `models.Seq2Seq`.
    label_smoothing: see `ops.cross_entropy`; in training only. teacher: what the decoder reads in training; step: of it.
    batch: inputs [B, S], lengths [B], targets [B, T] and weights [B, T].
    """

    label_smoothing: float = 0.0
    teacher: Teacher = Teacher()
    step: Any = None

    data: ClassVar[str] = 'pairs'
    output_kind: ClassVar[str] = 'target_token'
    unit: ClassVar[str] = 'nats per token'
    decodes: ClassVar[bool] = True
    options: ClassVar[type] = TeacherForcing

    @classmethod
    def settings(cls, options):
        teacher = Teacher(options['teacher_forcing'], options['teacher_forcing_steps'], options['teacher_forcing_floor'])
        return dict(label_smoothing=options['label_smoothing'], teacher=teacher)

    @classmethod
    def longest_row(cls, options):
        return options['max_length'] and options['max_length'] + 1  # the end of a text is not counted

    def at(self, step):
        return dataclasses.replace(self, step=step)

    def init(self, key, batch):
        return self.model.init(key, batch['inputs'], batch.get('lengths'), batch['targets'])

    def __call__(self, params, batch, key=None):
        targets, weights = batch['targets'], batch['weights']
        logits = self.logits(params, batch, key)
        loss = ops.cross_entropy(logits, targets, 0.0 if key is None else self.label_smoothing)
        right = jnp.where(jnp.argmax(logits, axis=-1) == targets, weights, 0)
        return Sums(loss=(loss * weights).sum(), weight=weights.sum(), metrics=dict(accuracy=right.sum()))

    def logits(self, params, batch, key=None):
        """[B, T, V]; with a key the model is in training."""
        given = batch['inputs'], batch.get('lengths'), batch['targets']
        if key is None:
            return self.model.apply({'params': params}, *given)
        previous = None
        if self.teacher.schedule != 'always':
            draw = jax.random.fold_in(key, 1)  # the key itself stays that of dropout, as without a schedule
            previous = mixed_inputs(self.model, params, batch, self.teacher(self.step), draw, START)
        return self.model.apply({'params': params}, *given, previous=previous, train=True, rngs={'dropout': key})

    def exported(self, T, codec, options):
        S, model = 'S' if T == 'T' else T, self.model
        inputs = dict(source=Input(('B', S), model.vocabulary - 1), lengths=Input(('B',), S),
                      targets=Input(('B', T), (model.target_vocabulary or model.vocabulary) - 1))

        def of_row(params, row):  # row by row: decoders ask how many rows there are, and a program is for any number
            row = {name: x[None] for name, x in row.items()}
            return self.logits(params, dict(inputs=row['source'], lengths=row['lengths'], targets=row['targets']))[0]

        def forward(params, **inputs):
            return dict(logits=jax.vmap(of_row, (None, 0))(params, inputs))

        return forward, inputs

    def numbers(self, sums):
        means = {name: float(value) for name, value in sums.means().items()}
        return {**means, 'perplexity': math.exp(min(means['loss'], 700))}
