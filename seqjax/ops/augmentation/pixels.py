"""Pixels as numbers that a network reads."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp


def unit_range(pixels: jax.Array) -> jax.Array:
    """Pixels of 8 bits as float32 from 0 to 1, pixels / 255; other numbers as they are."""
    return pixels.astype(jnp.float32) / 255 if pixels.dtype == jnp.uint8 else pixels


def standardise(pixels: jax.Array, mean: Sequence[float], deviation: Sequence[float]) -> jax.Array:
    """(pixels - mean) / deviation of every channel, the last axis."""
    return (pixels - jnp.array(mean, pixels.dtype)) / jnp.array(deviation, pixels.dtype)
