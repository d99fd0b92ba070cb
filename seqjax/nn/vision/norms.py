"""Norms of convolutional networks."""

import math

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion
from seqjax.nn.batch_norm import BatchNorm
from seqjax.nn.projection import partitioned

IMAGE_NORMS = ('batch', 'group', 'none')


class GroupNorm(nn.Module):
    """y = gamma (x - mean) / sqrt(variance + epsilon) + beta over the places of an image and a group of channels (Wu and He 2018).

    x, y: [B, ..., C]. At most 32 groups, of at least 4 channels each, as many as divide C. An image does not depend on the others of its
    batch, in training either.
    """

    epsilon: float = 1e-5
    axis: str | None = 'embed'
    scale_init: nn.initializers.Initializer = nn.initializers.ones
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        del train
        B, C = x.shape[0], x.shape[-1]
        scale = self.param('scale', partitioned(self.scale_init, (self.axis,)), (C,))
        bias = self.param('bias', partitioned(nn.initializers.zeros, (self.axis,)), (C,))
        groups = math.gcd(32, C, max(1, C // 4))
        grouped = x.astype(jnp.float32).reshape(B, -1, groups, C // groups)
        mean = grouped.mean(axis=(1, 3), keepdims=True)
        variance = jnp.square(grouped - mean).mean(axis=(1, 3), keepdims=True)
        y = ((grouped - mean) * jax.lax.rsqrt(variance + self.epsilon)).reshape(x.shape)
        return (y * scale + bias).astype(self.dtype)


class NoNorm(nn.Module):
    """x, called as a norm is."""

    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        del train
        return x


def image_norm(kind: str = 'batch', *, axis: str | None = 'embed', zero: bool = False, momentum: float = 0.9, epsilon: float = 1e-5,
               dtype: jnp.dtype = jnp.float32, name: str | None = None) -> nn.Module:
    """The norm of that kind, 'batch' (`nn.BatchNorm`), 'group' or 'none', to be called as norm(x, train).

    Args:
        axis: the logical name of the channels.
        zero: the scale begins as 0 (Goyal et al. 2017, section 5.1).
        momentum: of running statistics.
    """
    start = nn.initializers.zeros if zero else nn.initializers.ones
    if kind == 'batch':
        return BatchNorm(momentum, epsilon, axis, start, dtype, name=name)
    if kind == 'group':
        return GroupNorm(epsilon, axis, start, dtype, name=name)
    if kind == 'none':
        return NoNorm(name=name)
    raise FieldError('norm', kind, suggestion(kind, IMAGE_NORMS))
