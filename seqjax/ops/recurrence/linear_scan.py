"""Linear recurrences, h_t = a_t * h_{t-1} + b_t elementwise: the same states, computed in three ways.

    sequential    T steps one after another; the least work, and the fastest on a CPU
    chunked       chunks of about sqrt(T) steps side by side, then their ends one after another
    associative   log2(T) rounds of the operator (a, b) o (a', b') = (a a', a' b + b') (Blelloch 1990); for accelerators

The backward pass is the same recurrence in the other direction, run in the same way:

    g_t = dh_t + a_{t+1} g_{t+1},     db_t = g_t,     da_t = g_t h_{t-1}
"""

import functools
import math

import jax
import jax.numpy as jnp

METHODS = ('sequential', 'chunked', 'associative')


def linear_recurrence(a, b, h, *, reverse=False, method=None):
    """All states [T, ...] of h_t = a_t * h_{t-1} + b_t. a, b: [T, ...], real or complex; h: [...], the state before.

    method: one of METHODS; None takes the fastest for the platform that the program is compiled for.
    """
    if method not in (None, *METHODS):
        raise ValueError(f'method={method!r}; choose one of {", ".join(METHODS)}')
    return _linear(reverse, method, a, b, h)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _linear(reverse, method, a, b, h):
    return _states(reverse, method, a, b, h)


def _forward(reverse, method, a, b, h):
    states = _states(reverse, method, a, b, h)
    return states, (a, states, h)


def _backward(reverse, method, saved, d_states):
    a, states, h = saved
    after = shift(a, jnp.zeros_like(a[0]), not reverse)  # a_{t+1}
    g = _states(not reverse, method, after, d_states, jnp.zeros_like(h))
    first = -1 if reverse else 0
    return g * shift(states, h, reverse), g, a[first] * g[first]


_linear.defvjp(_forward, _backward)


def _states(reverse, method, a, b, h):
    first = -1 if reverse else 0
    b = b.at[first].add(a[first] * h)  # from here on the state before is zero
    ways = [functools.partial(way, reverse=reverse) for way in (_sequential, _chunked, _associative)]
    if method is not None:
        return ways[METHODS.index(method)](a, b)
    return jax.lax.platform_dependent(a, b, cpu=ways[0], default=ways[2])


def _sequential(a, b, *, reverse):
    def step(h, now):
        a, b = now
        h = a * h + b
        return h, h

    return jax.lax.scan(step, jnp.zeros_like(b[0]), (a, b), reverse=reverse)[1]


def _chunked(a, b, *, reverse):
    T = a.shape[0]
    size = math.isqrt(max(T - 1, 0)) + 1
    missing = -T % size
    pad = lambda x, value: jnp.pad(x, [(missing, 0) if reverse else (0, missing)] + [(0, 0)] * (x.ndim - 1),
                                   constant_values=value)
    cut = lambda x: jnp.moveaxis(x.reshape(-1, size, *x.shape[1:]), 1, 0)  # [size, chunks, ...]
    a, b = cut(pad(a, 1)), cut(pad(b, 0))

    def step(carry, now):
        (product, h), (a, b) = carry, now
        carry = a * product, a * h + b
        return carry, carry

    start = jnp.ones_like(a[0]), jnp.zeros_like(b[0])
    (whole, end), (product, h) = jax.lax.scan(step, start, (a, b), reverse=reverse)
    ends = _sequential(whole, end, reverse=reverse)  # [chunks, ...], the state at the end of every chunk
    h += product * shift(ends, jnp.zeros_like(ends[0]), reverse)
    h = jnp.moveaxis(h, 0, 1).reshape(-1, *h.shape[2:])
    return h[missing:] if reverse else h[:T]


def _associative(a, b, *, reverse):
    def combine(earlier, later):
        (a, b), (a2, b2) = earlier, later
        return a * a2, a2 * b + b2

    return jax.lax.associative_scan(combine, (a, b), reverse=reverse)[1]


def shift(x, first, reverse=False):
    """x one step later in the direction of reading, with `first` at the start."""
    return jnp.concatenate((x[1:], first[None]) if reverse else (first[None], x[:-1]))
