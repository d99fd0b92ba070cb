"""RWKV: a recurrent network that is trained like a Transformer."""

from collections.abc import Callable
import functools

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import check_at_least
from seqjax.models.stateful import StatefulLanguageModel

TINY = 1e-4  # embeddings start so small that every step of training changes them; a norm follows (Peng et al. 2023, section 3.4)


class RWKVBlock(nn.ResidualBlock):
    """x + time_mixing(norm(x)), and then x + channel_mixing(norm(x))"""

    time_mixing: linen.Module
    channel_mixing: linen.Module
    norm: Callable[..., linen.Module]
    dropout: float = 0.0

    layers = ('time_mixing', 'channel_mixing')


class RWKV(StatefulLanguageModel):
    """RWKV-4 (Peng et al. 2023): mixing over time and mixing of channels, L times.

    LayerNorm is before each and after the embedding. feed_forward: F, see `nn.ChannelMixing`; 0: 4 D.
    """

    tie_embeddings: bool = False
    feed_forward: int = 0

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 0, 'feed_forward')

    def setup(self):
        super().setup()
        self.embedding_norm = self.make_norm()()

    def embed(self, tokens):
        return self.embedding_norm(self.embedding(tokens))

    @linen.nowrap
    def make_block(self):
        dtype = jnp.dtype(self.dtype)
        return RWKVBlock(nn.TimeMixing(self.width, self.depth, dtype, parent=None),
                         nn.ChannelMixing(self.width, self.feed_forward, self.depth, dtype, parent=None), self.make_norm(),
                         self.dropout, parent=None)

    @linen.nowrap
    def make_norm(self):
        return functools.partial(nn.make_norm, 'layer', dtype=jnp.dtype(self.dtype))

    @linen.nowrap
    def table_init(self):
        return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -TINY, TINY)

    @linen.nowrap
    def output_init(self):
        return linen.initializers.orthogonal(0.5 * max(self.vocabulary / self.width, 1) ** 0.5)
