"""Non-local blocks: every place of a clip looks at all places of all its frames.

Shapes: B clips of T frames of h x w places and C channels; N = T h w places, K inner channels, C / 2.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, suggestion
from seqjax.nn.projection import Projection, fan_in, partitioned

NON_LOCAL = ('embedded_gaussian', 'dot_product', 'concatenation')


class NonLocalBlock(nn.Module):
    """z_i = x_i + W_z sum_j f(x_i, x_j) g(x_j) / c, over all places j of a clip (Wang et al. 2018, section 3).

        'embedded_gaussian'   f = exp(theta(x_i) . phi(x_j)),            c = sum_j f: self-attention, without its scale
        'dot_product'         f = theta(x_i) . phi(x_j),                 c = N
        'concatenation'       f = relu(w . [theta(x_i), phi(x_j)]),      c = N
    theta, phi and g are linear maps to K channels. W_z begins as 0, so that the block begins as the identity (section 4.1 there).
    subsample: phi and g are of the largest of 2 x 2 places, which takes a quarter of the operations (section 3.3).

    x: [B, T, h, w, C] -> the same. lengths: [B], frames past them are looked at by none; None: all count.
    """

    kind: str = 'embedded_gaussian'
    subsample: bool = False
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        if self.kind not in NON_LOCAL:
            raise FieldError('non_local_kind', self.kind, f'no such kind of non-local block; {suggestion(self.kind, NON_LOCAL)}')

    @nn.compact
    def __call__(self, x, lengths=None):
        B, T, h, w, C = x.shape
        K = max(1, C // 2)
        into = lambda name: Projection((K,), ('embed', 'mlp'), kernel_init=fan_in(), dtype=self.dtype, name=name)
        query, (key, value) = into('theta')(x).reshape(B, -1, K), (self._places(into(name)(x)) for name in ('phi', 'g'))
        mask = ops.Mask(lengths=None if lengths is None else lengths * (key.shape[1] // T))  # places lie frame by frame
        if self.kind == 'embedded_gaussian':
            y = ops.attend(query[:, :, None], key[:, :, None], value[:, :, None], mask, scale=1.0)[:, :, 0]
        else:
            there = jnp.ones((B, key.shape[1])) if lengths is None else ops.valid_steps(mask.lengths, key.shape[1]).astype(jnp.float32)
            scores = self._scores(query.astype(jnp.float32), key.astype(jnp.float32)) * there[:, None]  # [B, N, S]
            scores = scores / jnp.maximum(there.sum(axis=1), 1)[:, None, None]
            y = jnp.einsum('bns,bsk->bnk', scores, value.astype(jnp.float32)).astype(x.dtype)
        zeros = nn.initializers.zeros
        y = Projection((C,), ('mlp', 'embed'), kernel_init=zeros, dtype=self.dtype, name='out')(y)
        return ops.constrain(x + y.reshape(x.shape).astype(x.dtype), 'batch', ..., 'embed')

    def _places(self, x):
        """[B, S, K] of [B, T, h, w, K]: the places that are looked at."""
        B, T, h, w, K = x.shape
        if self.subsample:
            x = nn.max_pool(x.reshape(B * T, h, w, K), (2, 2), (2, 2), 'SAME')
        return x.reshape(B, -1, K)

    def _scores(self, query, key):
        if self.kind == 'dot_product':
            return jnp.einsum('bnk,bsk->bns', query, key)
        weight = self.param('weight', partitioned(nn.initializers.lecun_normal(), ('mlp', None)), (2 * query.shape[-1], 1))
        first, second = jnp.split(weight[:, 0], 2)
        return jax.nn.relu((query @ first)[:, :, None] + (key @ second)[:, None])
