"""Normalisation of every step: by its mean and deviation, or by its size alone."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax.errors import FieldError
from seqjax.nn.projection import partitioned

NORMS = ('layer', 'rms')


class LayerNorm(nn.LayerNorm):
    """flax's, which mixes bfloat16 with its float32 statistics also where jax_numpy_dtype_promotion='strict'."""

    def __call__(self, x):
        with jax.numpy_dtype_promotion('standard'):
            return super().__call__(x)


class RMSNorm(nn.RMSNorm):
    """x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich 2019); flax's, with the same care for bfloat16."""

    def __call__(self, x):
        with jax.numpy_dtype_promotion('standard'):
            return super().__call__(x)


def layer_norm(bias, dtype, name=None, epsilon=1e-5):
    """flax's LayerNorm with named axes; statistics in float32."""
    return LayerNorm(
        epsilon=epsilon, use_bias=bias, dtype=dtype, name=name,
        scale_init=partitioned(nn.initializers.ones, ('embed',)), bias_init=partitioned(nn.initializers.zeros, ('embed',)))


def make_norm(kind, *, epsilon=1e-5, bias=True, dtype=jnp.float32, name=None):
    """The norm of that kind: 'layer' or 'rms', which has no bias."""
    if kind == 'layer':
        return layer_norm(bias, dtype, name, epsilon)
    if kind == 'rms':
        return RMSNorm(epsilon=epsilon, dtype=dtype, name=name, scale_init=partitioned(nn.initializers.ones, ('embed',)))
    raise FieldError('norm', kind, f'choose one of: {", ".join(NORMS)}')
