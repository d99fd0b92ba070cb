r"""Three ways to read a sequence: the same network at every step, another at every step, one with a memory.

What it shows: why recurrent networks were invented. All three predict the next character of Python's own source.

    per_step     p_t = f(x_t; W)                   few parameters; knows the present character only
    unshared     p_t = f(x_t; W_t)                 64 times the parameters; knows where it stands, and no more of the past
    recurrent    p_t, h_t = f(x_t, h_{t-1}; W)     few parameters; knows what came before, and takes rows of any length

    python launch.py --config=experiments/recurrence/receptive_ladder.py --workdir=runs/ladder      # all three, and comparison.png
    python launch.py --workdir=runs/ladder/recurrent --mode=generate --config.decode.prompt="def "
    python launch.py --workdir=runs/ladder/per_step --mode=eval --config=experiments/recurrence/receptive_ladder.py:per_step

Measured with seed 0 on 2 CPU cores that did other work too (Python 3.11, jax 0.10.2), held-out loss at step 1,000, over
122,880 characters of the last 10 % of the text:

| variant | nats per character | parameters | minutes |
|---|---|---|---|
| per_step | 2.409 | 41,184 | 0.4 |
| unshared | 2.453 | 2,635,776 | 1.7 |
| recurrent | 1.912 | 156,256 | 1.2 |

Weights for every step of their own do not help: where a window starts says nothing about the text, and each of the 64
networks sees a 64th of the characters.

The first two are models of this file, registered as a stranger's would be, so every command on their runs names it. f is an embedding,
`depth` hidden layers of relu units and a softmax; all steps are computed at once, without a loop.
"""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import config as configs
from seqjax import models, nn, ops
from seqjax.errors import check_at_least

VARIANTS = ('per_step', 'unshared', 'recurrent')


class StepProjection(linen.Module):
    """y_t = x_t W_t + b_t with weights for `steps` steps; with steps=1 all of them share one W. x: [B, T, D]."""

    features: int
    steps: int
    axes: tuple[str | None, str | None]
    dtype: jnp.dtype = jnp.float32

    @linen.compact
    def __call__(self, x):
        T, D = x.shape[1:]
        init = linen.initializers.variance_scaling(1.0, 'fan_in', 'normal', batch_axis=0)
        zeros = linen.initializers.zeros
        kernel = self.param('kernel', nn.partitioned(init, (None, *self.axes)), (self.steps, D, self.features))
        bias = self.param('bias', nn.partitioned(zeros, (None, self.axes[1])), (self.steps, self.features))
        kernel, bias = (weights[:T].astype(self.dtype) for weights in (kernel, bias))
        product = 'btd,df->btf' if self.steps == 1 else 'btd,tdf->btf'
        y = jnp.einsum(product, x, kernel[0] if self.steps == 1 else kernel) + bias
        return ops.constrain(y, 'batch', None, self.axes[1])


class Network(linen.Module):
    """f of the table above; tokens [B, T] -> logits [B, T, V]."""

    vocabulary: int
    steps: int
    width: int
    depth: int
    dropout: float
    dtype: jnp.dtype

    @linen.compact
    def __call__(self, tokens, *, train):
        T = tokens.shape[1]
        init = linen.initializers.normal(self.width ** -0.5)
        table = self.param('embedding', nn.partitioned(init, (None, 'vocab', 'embed')),
                           (self.steps, self.vocabulary, self.width)).astype(self.dtype)
        x = table[jnp.minimum(jnp.arange(T), self.steps - 1), tokens]
        x = ops.constrain(x, 'lookup', None, 'embed')
        x = ops.constrain(x, 'batch', None, 'embed')  # [B, T, D]
        for layer in range(self.depth):
            x = linen.Dropout(self.dropout, deterministic=not train)(x)
            x = jax.nn.relu(StepProjection(self.width, self.steps, ('embed', 'mlp'), self.dtype, name=f'hidden_{layer}')(x))
        x = linen.Dropout(self.dropout, deterministic=not train)(x)
        return StepProjection(self.vocabulary, self.steps, ('mlp', 'vocab'), self.dtype, name='output')(x)


class Rung(linen.Module, kw_only=True):
    """What the two have in common."""

    vocabulary: int
    width: int = 256
    depth: int = 1
    dropout: float = 0.0
    dtype: str = 'float32'

    output_kinds = ('next_token',)

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 1, 'width', 'depth')

    def run(self, tokens, steps, train):
        return Network(self.vocabulary, steps, self.width, self.depth, self.dropout, jnp.dtype(self.dtype),
                        name='network')(tokens, train=train)


@models.register('per_step')
class PerStep(Rung, kw_only=True):
    """tokens [B, T] -> logits [B, T, V], by the same network at every step.

    A row may hold several texts: without memory none can see another, and their `segments` make no difference.
    """

    packs = True

    @linen.compact
    def __call__(self, tokens, *, segments=None, train=False):
        return self.run(tokens, 1, train)


@models.register('unshared')
class Unshared(Rung, kw_only=True):
    """tokens [B, T] -> logits [B, T, V], by a network of its own at each of `context_length` steps."""

    context_length: int

    @linen.compact
    def __call__(self, tokens, *, segments=None, train=False):
        if segments is not None:
            raise ValueError('weights belong to the steps of a row here, and a row with several texts has several first '
                             'steps; give each text a row of its own')
        if tokens.shape[1] > self.context_length:
            raise ValueError(f'{tokens.shape[1]} tokens in a row, and weights for {self.context_length} steps')
        return self.run(tokens, self.context_length, train)


def get_config(variant='recurrent'):
    config = configs.defaults(model=variant)
    config.data.update(batch_size=32, sequence_length=64)
    config.model.update(width=128, depth=1)
    config.train.update(steps=1000, eval_every=100, eval_batches=60, save_every=500)
    config.optimizer.update(name='adamw', learning_rate=3e-3, schedule='cosine', warmup_steps=100, final_rate=0.05,
                            clip_norm=1.0)
    return config
