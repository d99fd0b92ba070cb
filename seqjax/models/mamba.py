"""Mamba: a language model of selective state spaces, without attention and without a feed-forward network."""

from collections.abc import Callable
import functools

from flax import linen
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError
from seqjax.models.carrying import CarryingLanguageModel


class MambaBlock(nn.ResidualBlock):
    """x + mixer(norm(x))"""

    mixer: linen.Module
    norm: Callable[..., linen.Module]
    dropout: float = 0.0

    layers = ('mixer',)


class Mamba(CarryingLanguageModel):
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
        for field, least in (('expand', 1), ('state_size', 1), ('kernel_size', 2), ('rank', 0)):
            if getattr(self, field) < least:
                raise FieldError(field, getattr(self, field), f'must be at least {least}')

    @linen.nowrap
    def _make_stack(self, **options):
        dtype = jnp.dtype(self.dtype)
        norm = functools.partial(nn.make_norm, 'rms', epsilon=self.epsilon, dtype=dtype)
        # L layers add to the residual stream; their scale keeps its variance (GPT-2, section 2.3).
        mixer = nn.Mamba(self.width, self.expand, self.state_size, self.kernel_size, self.rank, self.bias, self.conv_bias,
                         self.depth ** -0.5, dtype, parent=None)
        block = MambaBlock(mixer, norm, self.dropout, parent=None)
        return nn.Stack(block, self.depth, norm, self.scan, self.remat, **options)
