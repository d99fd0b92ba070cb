"""The two rungs below a recurrent network: a network for every step, without memory.

    per_step     p_t = f(x_t; W)                   the same weights at every step: few parameters, no notion of time
    unshared     p_t = f(x_t; W_t)                 other weights at every step: T times the parameters, T steps at most
    recurrent    p_t, h_t = f(x_t, h_{t-1}; W)     (models.recurrent) memory, few parameters, any number of steps

f is an embedding, `depth` hidden layers of relu units and a softmax. All steps are computed at once, without a loop.
"""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import check_at_least


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


class _Network(linen.Module):
    """f of the page's first lines; tokens [B, T] -> logits [B, T, V]."""

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


class _Rung(linen.Module, kw_only=True):
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
        return _Network(self.vocabulary, steps, self.width, self.depth, self.dropout, jnp.dtype(self.dtype),
                        name='network')(tokens, train=train)


class PerStep(_Rung, kw_only=True):
    """tokens [B, T] -> logits [B, T, V], by the same network at every step.

    A row may hold several texts: without memory none can see another, and their `segments` make no difference.
    """

    packs = True

    @linen.compact
    def __call__(self, tokens, *, segments=None, train=False):
        return self.run(tokens, 1, train)


class Unshared(_Rung, kw_only=True):
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
