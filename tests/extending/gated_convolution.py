"""A model family from outside: a gated convolutional language model (Dauphin et al. 2017).

    h'_t = (sum_k W_k h_{t-k} + b) * sigmoid(sum_k V_k h_{t-k} + c),   k = 0 .. K - 1

is added to a residual stream, L times. Its state for generation is the last K - 1 inputs of every layer.

    python launch.py --config=tests/extending/gated_convolution.py --workdir=runs/gated_convolution
    python launch.py --config=tests/extending/gated_convolution.py --workdir=runs/gated_convolution --mode=generate
"""

from collections.abc import Callable
import functools

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import config as configs
from seqjax import models, nn, ops


class GatedConvolution(linen.Module):
    """The layer: `width` is that of h, `kernel_size` K."""

    width: int
    kernel_size: int = 4
    dtype: jnp.dtype = jnp.float32

    @linen.compact
    def __call__(self, x, context, state, *, train=False):
        past = [ops.earlier_step(x, state, by, context.segments) for by in range(1, self.kernel_size)]
        seen = jnp.concatenate([x, *past], axis=-1)                                              # [B, T, K D]
        both = nn.Projection((2 * self.width,), ('embed', 'mlp'), dtype=self.dtype, name='in')(seen)
        value, gate = jnp.split(both, 2, axis=-1)
        return value * jax.nn.sigmoid(gate), ops.last_inputs(x, state, context.lengths, segments=context.segments)

    @linen.nowrap
    def empty_state(self, rows, slots=0):
        return jnp.zeros((rows, self.kernel_size - 1, self.width), self.dtype)


class Block(nn.ResidualBlock):
    """x + convolution(norm(x))"""

    convolution: linen.Module
    norm: Callable[..., linen.Module]
    dropout: float = 0.0

    layers = ('convolution',)


@models.register('gated_convolution')
class GatedConvolutionalModel(models.StatefulLanguageModel):
    """The family: `config.model` has these fields and those of a `StatefulLanguageModel`."""

    kernel_size: int = 4

    @linen.nowrap
    def make_block(self):
        layer = GatedConvolution(self.width, self.kernel_size, jnp.dtype(self.dtype), parent=None)
        return Block(layer, self.make_norm(), self.dropout, parent=None)

    @linen.nowrap
    def make_norm(self):
        return functools.partial(nn.make_norm, 'rms', dtype=jnp.dtype(self.dtype))


def get_config():
    config = configs.defaults('gated_convolution')
    config.model.update(width=16, depth=2, kernel_size=3)
    config.data.update(batch_size=4, sequence_length=16)
    config.train.update(steps=4, eval_every=4, eval_batches=1, save_every=4)
    config.optimizer.warmup_steps = 0
    return config
