"""Positions: where a step stands in its row or segment, and vectors for layers that cannot tell one step from another."""

import jax
import jax.numpy as jnp


def sinusoidal_positions(steps, D):
    """[..., D] in float32 of steps [...], however far (Vaswani et al. 2017, section 3.5):

        p_{t, 2i} = sin(t / 10000^(2i / D)),     p_{t, 2i+1} = cos(t / 10000^(2i / D))
    """
    if D % 2:
        raise ValueError(f'D={D}: sines and cosines come in pairs; take an even width')
    rates = 10000 ** (-jnp.arange(0, D, 2, dtype=jnp.float32) / D)  # [D / 2]
    angles = steps[..., None].astype(jnp.float32) * rates  # [..., D / 2]
    return jnp.stack((jnp.sin(angles), jnp.cos(angles)), axis=-1).reshape(*steps.shape, D)


def steps_of_segments(segments):
    """[B, T] of integers: how many steps of its own segment come before each step."""
    steps = jnp.arange(segments.shape[1])
    starts = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))  # but for the first step, which needs no sign
    return steps - jax.lax.cummax(jnp.where(starts, steps, 0), axis=1)


def rotary_rates(K, base=10000.0, factor=1.0, low=1.0, high=4.0, length=0):
    """[K / 2]: the angle by which every pair turns in one step, base^(-2i / K) / factor.

    A factor stretches what was learned over so many times as many steps (Chen et al. 2023). length: so many steps were learned;
    pairs that turn more than `high` times in them know the near and are not stretched, pairs that turn less than `low` times are, and
    those between are by a part (Llama 3.1). 0: all pairs are.
    """
    rates = base ** (-jnp.arange(0, K, 2, dtype=jnp.float32) / K)
    if not length:
        return rates / factor
    unchanged = jnp.clip((length * rates / (2 * jnp.pi) - low) / (high - low), 0, 1)
    return rates * (unchanged + (1 - unchanged) / factor)


def rotate(x, steps, base=10000.0, scaling=()):
    """Rotary positions: the pair (x_i, x_{i + K/2}) turned by the angle step * base^(-2i / K) (Su et al. 2021, section 3.2).

    The dot product of two rotated vectors depends on the distance of their steps only. x: [B, T, H, K]; steps: [T] or
    [B, T]. Pairs are halves apart, as in Llama; in the paper they are neighbours. scaling: what follows in `rotary_rates`.
    """
    K = x.shape[-1]
    if K % 2:
        raise ValueError(f'K={K}: rotary positions turn pairs; take an even head width')
    rates = rotary_rates(K, base, *scaling)
    angles = steps[..., None, None].astype(jnp.float32) * rates  # [T, 1, K / 2] or [B, T, 1, K / 2]
    sin, cos = jnp.sin(angles), jnp.cos(angles)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1).astype(x.dtype)


def alibi_slopes(H):
    """[H], a geometric sequence from 2^(-8 / H) to 2^-8 (Press et al. 2022, section 3).

    Where H is no power of two: that of the next smaller power, then every other slope of the power after it.
    """
    power = 2 ** (H.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)] + [2 ** (-4 * h / power) for h in range(1, 2 * power, 2)]
    return jnp.array(slopes[:H], jnp.float32)


def alibi_bias(H, S):
    """[H, 2 S - 1] for `attend`: minus the head's slope times the distance, |t - s| (Press et al. 2022)."""
    return -alibi_slopes(H)[:, None] * jnp.abs(jnp.arange(1 - S, S)).astype(jnp.float32)


def relative_buckets(distances, buckets=32, limit=128, causal=False):
    """The bucket, 0 to buckets - 1, of each distance (step of the key minus step of the query), as in T5.

    Small distances have a bucket each, larger ones share buckets that grow with the logarithm up to `limit`, and all
    beyond have the last one; each direction has half of the buckets, unless `causal` says that keys lie in the past
    (Raffel et al. 2020, section 2.1).
    """
    count = buckets if causal else buckets // 2
    exact = count // 2  # distances with a bucket of their own
    shared = count - exact
    # (d / exact)^shared >= (limit / exact)^n, in integers: a logarithm would round at the very borders of the buckets.
    far = [sum(d ** shared * exact ** n >= limit ** n * exact ** shared for n in range(1, shared)) for d in range(exact, limit)]
    table = jnp.array([*range(exact), *(exact + n for n in far), count - 1], jnp.int32)  # of the distances up to the limit
    size = jnp.clip(-distances if causal else jnp.abs(distances), 0, limit)
    bucket = table[size]
    return bucket if causal else bucket + jnp.where(distances > 0, count, 0)


def bias_by_distance(bias, t, T, s, S, keys, start=None):
    """What a bias adds to the scores of T queries from number t and S keys from number s on, of so many `keys` in all.

    bias: [H, N], where bias[h, t - s + keys - 1] is for query t and key s. Returns [H, T, S] in float32, or [B, H, T, S] where
    query t of row b stands at start[b] + t.
    """
    if start is None:
        diagonals = jax.lax.dynamic_slice_in_dim(bias, t - s - S + keys, T + S - 1, axis=1)
        return toeplitz(diagonals, T, S).astype(jnp.float32)
    distances = (start[:, None] + t + jnp.arange(T))[..., None] - s - jnp.arange(S)  # [B, T, S]
    return jnp.moveaxis(jnp.take(bias, distances + keys - 1, axis=1, mode='clip'), 0, 1).astype(jnp.float32)


def toeplitz(diagonals, T, S):
    """[H, T, S] with diagonals[h, t - s + S - 1] at (t, s). diagonals: [H, T + S - 1].

    Row t is the row above it, moved on by one: rows written one after the other and read in a width greater by one. A
    gather does the same, but its gradient would be a scatter.
    """
    H, N = diagonals.shape
    rows = jnp.broadcast_to(diagonals[:, None], (H, T, N)).reshape(H, T * N)
    return jnp.pad(rows, ((0, 0), (0, T))).reshape(H, T, N + 1)[:, :, S - 1::-1]
