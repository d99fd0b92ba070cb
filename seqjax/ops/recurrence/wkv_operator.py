"""The attention of RWKV: a mean of all values so far whose weights fall with the distance, at a rate for every channel.

    wkv_t = (sum_{s<t} exp(k_s - (t - 1 - s) w) v_s + exp(u + k_t) v_t) / (the same without v)

(Peng et al. 2023, equation 16 and appendix D). Numerator and denominator are linear recurrences, and keys are exponents that may
be large, so both are kept as multiples of exp(m), with m the largest exponent so far:

    m_t = max(m_{t-1} - w, k_t),   a_t = exp(m_{t-1} - w - m_t) a_{t-1} + exp(k_t - m_t) v_t,   b_t likewise with 1 for v_t

m is a unit and changes nothing: no gradient goes through it. Shapes: B rows, T steps, D channels.
"""

import jax
import jax.numpy as jnp

from seqjax.ops.pooling import mask_steps, valid_steps
from seqjax.ops.recurrence.linear_scan import linear_recurrence, shift
from seqjax.ops.recurrence.token_shift import segment_starts

LEAST = -1e38  # exp of it is 0, and its difference to itself is 0 and not NaN


def wkv_state(B, D):
    """The state before the first step: (numerator, denominator, maximum), each [B, D] and float32."""
    zeros = jnp.zeros((B, D), jnp.float32)
    return zeros, zeros, zeros + LEAST


def wkv(key, value, decay, bonus, state, lengths=None, *, segments=None, method=None):
    """(wkv [B, T, D], state). key, value: [B, T, D]; decay, bonus: [D], w >= 0 and u of the equation; state: see `wkv_state`.

    lengths: [B] or None, from lengths[b] on wkv is zero and the state stays. segments: [B, T] or None, where their number changes
    the state before is forgotten; the one given belongs to the first segment. method: see `linear_recurrence`.
    """
    T = key.shape[1]
    k, v = (jnp.moveaxis(mask_steps(part, lengths).astype(jnp.float32), 1, 0) for part in (key, value))  # [T, B, D]
    u, fall = bonus.astype(jnp.float32), jnp.broadcast_to(decay.astype(jnp.float32), k.shape)
    valid, starts = True, False
    if lengths is not None:
        valid = valid_steps(lengths, T).T[..., None]
        k, fall = jnp.where(valid, k, -jnp.inf), jnp.where(valid, fall, 0)  # adds nothing, loses nothing
    if segments is not None:
        starts = segment_starts(segments, lengths).T[..., None]

    method = method if isinstance(T, int) else 'sequential'  # where T is a symbol, as in an export, only a loop can be
    m = _maxima(method, *map(jax.lax.stop_gradient, (jnp.where(starts, jnp.inf, fall), k, state[2])))
    before = jnp.where(starts, -jnp.inf, shift(m, jax.lax.stop_gradient(state[2])))
    a, b = jnp.exp(before - fall - m), jnp.exp(k - m)
    sums = linear_recurrence(jnp.stack((a, a), axis=1), jnp.stack((b * v, b), axis=1), jnp.stack(state[:2]), method=method)

    numerator, denominator = jnp.moveaxis(shift(sums, jnp.stack(state[:2])), 1, 0)  # before the step
    most = jax.lax.stop_gradient(jnp.maximum(before, u + k))
    past, now = jnp.exp(before - most), jnp.exp(u + k - most)
    mean = (past * numerator + now * v) / jnp.where(valid, past * denominator + now, 1)
    mean = mask_steps(jnp.moveaxis(mean, 0, 1), lengths)
    return mean.astype(value.dtype), (sums[-1, 0], sums[-1, 1], m[-1])


def _maxima(method, fall, k, m):
    """m_t = max(m_{t-1} - fall_t, k_t) for all t, [T, B, D]: one after another on a CPU, in log T rounds elsewhere."""
    def sequential(fall, k):
        def step(m, now):
            m = jnp.maximum(m - now[0], now[1])
            return m, m

        return jax.lax.scan(step, jnp.full_like(m, -jnp.inf), (fall, k))[1]

    def associative(fall, k):
        return jax.lax.associative_scan(lambda one, two: (one[0] + two[0], jnp.maximum(one[1] - two[0], two[1])), (fall, k))[1]

    k = k.at[0].set(jnp.maximum(m - fall[0], k[0]))  # from here on there is nothing before
    if method is not None:
        return sequential(fall, k) if method == 'sequential' else associative(fall, k)
    return jax.lax.platform_dependent(fall, k, cpu=sequential, default=associative)
