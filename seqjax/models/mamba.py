"""Mamba: a language model of selective state spaces, without attention and without a feed-forward network."""

from collections.abc import Callable
import functools

from flax import linen
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import check_at_least
from seqjax.models.stateful import StatefulLanguageModel


class MambaBlock(nn.ResidualBlock):
    """x + mixer(norm(x))"""

    mixer: linen.Module
    norm: Callable[..., linen.Module]
    dropout: float = 0.0

    layers = ('mixer',)


class Mamba(StatefulLanguageModel):
    """Mamba (Gu & Dao 2023): x + mixer(norm(x)), L times, with RMSNorm; the output is tied to the embedding.

    expand, state_size, kernel_size, rank, bias, conv_bias: see `nn.Mamba`. epsilon: of the norms.
    """

    expand: int = 2
    state_size: int = 16
    kernel_size: int = 4
    rank: int = 0
    bias: bool = False
    conv_bias: bool = True
    epsilon: float = 1e-5

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 0, 'rank')
        check_at_least(self, 1, 'expand', 'state_size')
        check_at_least(self, 2, 'kernel_size')

    @linen.nowrap
    def make_block(self):
        # L layers add to the residual stream; their scale keeps its variance (GPT-2, section 2.3).
        mixer = nn.Mamba(self.width, self.expand, self.state_size, self.kernel_size, self.rank, self.bias, self.conv_bias,
                         self.depth ** -0.5, jnp.dtype(self.dtype), parent=None)
        return MambaBlock(mixer, self.make_norm(), self.dropout, parent=None)

    @linen.nowrap
    def make_norm(self):
        return functools.partial(nn.make_norm, 'rms', epsilon=self.epsilon, dtype=jnp.dtype(self.dtype))
