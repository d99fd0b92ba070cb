"""One vector for the steps of a row: what lies past its length counts for nothing, and a row of no steps gives zeros.

x: [B, T, M]. lengths: [B], or None where every row has T steps.
"""

import jax.numpy as jnp


def valid_steps(lengths, T):
    """[B, T] of booleans: True up to each row's length."""
    return jnp.arange(T) < lengths[:, None]


def mask_steps(x, lengths=None):
    """x [B, T, M] with zeros past each row's length, whatever was there: infinity too."""
    return x if lengths is None else jnp.where(valid_steps(lengths, x.shape[1])[:, :, None], x, 0)


def last_step(x, lengths=None):
    """x at the end of each row, [B, M]."""
    if lengths is None:
        return x[:, -1]
    ends = jnp.take_along_axis(x, jnp.maximum(lengths - 1, 0)[:, None, None], axis=1)[:, 0]
    return jnp.where(lengths[:, None] > 0, ends, 0)


def mean_step(x, lengths=None):
    """The mean of x over the steps of each row, [B, M]; added up in float32."""
    total = mask_steps(x, lengths).sum(axis=1, dtype=jnp.float32)
    count = x.shape[1] if lengths is None else jnp.maximum(lengths, 1)[:, None].astype(jnp.float32)
    return (total / count).astype(x.dtype)


def max_step(x, lengths=None):
    """The maximum of x over the steps of each row, unit by unit, [B, M]; of equal steps the first gets the gradient."""
    T = x.shape[1]
    valid = jnp.ones((1, T, 1), bool) if lengths is None else valid_steps(lengths, T)[:, :, None]
    best = jnp.where(valid, x, jnp.finfo(x.dtype).min).argmax(axis=1, keepdims=True)  # [B, 1, M]
    # By place: the gradient of `max` compares x with its maximum, and was wrong as XLA compiled it for the CPU at its
    # optimization level 0, where x may be computed twice and rounded differently.
    return jnp.where(valid & (jnp.arange(T)[:, None] == best), x, 0).sum(axis=1)
