"""Attention of a decoder to what an encoder has said."""

from flax import linen as nn
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.nn.projection import Projection, partitioned

KINDS = ('additive', 'dot', 'scaled_dot', 'bilinear')


class Attention(nn.Module):
    """keys and values once for a source, then contexts for as many queries as there will be:

        keys, values = attention.read(outputs)                               outputs [B, S, E] of an encoder
        contexts, weights = attention(queries, keys, values, mask)           queries [B, T, D] -> [B, T, E], [B, T, S]

    kind, with the functions of `ops.attention`:
        'additive'     v . tanh(W q + U h)
        'dot'          q . h, without parameters: D and E must be equal
        'scaled_dot'   (W q) . (U h) / sqrt(width)
        'bilinear'     q . (W h), the map done once a source: width must be D
    mask: [B, S], True where the source is real. width: of what W and U make. value_width: where it is not 0, values are a learned
    map of the outputs to so many numbers, and not the outputs themselves. hard_attention: all of the weight on the best match.
    """

    kind: str = 'additive'
    width: int = 256
    value_width: int = 0
    hard_attention: bool = False
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        if self.kind not in KINDS:
            raise FieldError('attention', self.kind, f'choose one of: {", ".join(KINDS)}')

    def setup(self):
        if self.kind in ('additive', 'scaled_dot'):
            self.query = self._map(self.width, bias=True)
        if self.kind != 'dot':
            self.key = self._map(self.width)
        if self.kind == 'additive':
            self.v = self.param('v', partitioned(nn.initializers.normal(self.width ** -0.5), (None,)), (self.width,))
        if self.value_width:
            self.value = self._map(self.value_width)

    def read(self, outputs):
        """(keys [B, S, A], values [B, S, E]) of the outputs of an encoder."""
        keys = outputs if self.kind == 'dot' else self.key(outputs)
        return keys, self.value(outputs) if self.value_width else outputs

    def __call__(self, queries, keys, values, mask=None):
        if self.kind == 'additive':
            scores = ops.additive_scores(self.query(queries), keys, self.v.astype(self.dtype))
        elif self.kind == 'scaled_dot':
            scores = ops.scaled_dot_scores(self.query(queries), keys)
        else:
            scores = ops.dot_scores(queries, keys)
        weights = (ops.hard_weights if self.hard_attention else ops.soft_weights)(scores, None if mask is None else mask[:, None])
        return ops.weigh(weights, values), weights

    def _map(self, width, bias=False):
        return Projection((width,), ('embed', None), bias=bias, kernel_init=nn.initializers.lecun_normal(), dtype=self.dtype)
