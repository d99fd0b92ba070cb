"""Batch normalisation (Ioffe and Szegedy 2015): every channel of a batch is brought to mean 0 and variance 1.

    y = gamma (x - mean) / sqrt(variance + epsilon) + beta

In training mean and variance are those of the global batch and have a gradient; in evaluation they are running averages.
"""

import math

import jax
import jax.numpy as jnp

from seqjax.ops.logical_axes import devices_of_rows, mean_over_rows


def batch_statistics(x: jax.Array) -> tuple[jax.Array, jax.Array, int]:
    """(mean [C], variance [C], n) of every channel of x [B, ..., C] over the n numbers of it in the global batch, in float32.

    The variance is that of the batch, divided by n. It is computed from differences to the mean: E[x^2] - E[x]^2 loses all digits
    of a channel whose mean is large.
    """
    x = x.astype(jnp.float32)
    mean = mean_over_rows(x)
    variance = mean_over_rows(jnp.square(x - mean))
    return mean, variance, math.prod(x.shape[:-1]) * devices_of_rows()


def batch_norm(x: jax.Array, mean: jax.Array, variance: jax.Array, scale: jax.Array, bias: jax.Array,
               epsilon: float = 1e-5) -> jax.Array:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta [B, ..., C], in float32 and then of the type of x.

    mean, variance, scale (gamma), bias (beta): [C].
    """
    y = (x.astype(jnp.float32) - mean) * (jax.lax.rsqrt(variance + epsilon) * scale) + bias
    return y.astype(x.dtype)


def update_running(running: jax.Array, batch: jax.Array, momentum: float = 0.9) -> jax.Array:
    """momentum * running + (1 - momentum) * batch, each [C]. torch calls 1 - momentum the momentum."""
    return momentum * running + (1 - momentum) * batch
