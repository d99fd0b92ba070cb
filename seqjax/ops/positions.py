"""Positions: where a step stands in its row or segment, and vectors for layers that cannot tell one step from another."""

import jax
import jax.numpy as jnp


def sinusoidal_positions(T, D):
    """[T, D] in float32, for any T (Vaswani et al. 2017, section 3.5):

        p_{t, 2i} = sin(t / 10000^(2i / D)),     p_{t, 2i+1} = cos(t / 10000^(2i / D))
    """
    if D % 2:
        raise ValueError(f'D={D}: sines and cosines come in pairs; take an even width')
    rates = 10000 ** (-jnp.arange(0, D, 2, dtype=jnp.float32) / D)  # [D / 2]
    angles = jnp.arange(T, dtype=jnp.float32)[:, None] * rates  # [T, D / 2]
    return jnp.stack((jnp.sin(angles), jnp.cos(angles)), axis=-1).reshape(T, D)


def steps_of_segments(segments):
    """[B, T] of integers: how many steps of its own segment come before each step."""
    steps = jnp.arange(segments.shape[1])
    starts = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))  # but for the first step, which needs no sign
    return steps - jax.lax.cummax(jnp.where(starts, steps, 0), axis=1)


def same_segment(segments):
    """[B, 1, T, T] of booleans, a mask for attention: a step sees the steps of its own segment."""
    return (segments[:, :, None] == segments[:, None])[:, None]
