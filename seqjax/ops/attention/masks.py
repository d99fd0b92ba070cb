"""Where a query may look, as a few facts instead of a matrix, so that attention can leave out what nobody sees.

Shapes: B rows, T queries, S keys.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

LOWEST = float(jnp.finfo(jnp.float32).min) / 2  # below every score, and finite: -inf, which hides, - LOWEST is -inf and not NaN


@functools.partial(jax.tree_util.register_dataclass, data_fields=['prefix', 'lengths', 'segments', 'start'],
                   meta_fields=['causal', 'window'])
@dataclasses.dataclass(frozen=True)
class Mask:
    """Query t of row b may look at key s where all of these say so; a field that is left out says nothing.

    causal: s <= t.
    window: exactly r steps are in reach, t - r < s <= t where causal, and else the neighbourhood of size r around t,
        t - r // 2 <= s <= t + (r - 1) // 2 (Vaswani et al. 2017, section 4). 0: no limit.
    prefix: [B], the first prefix[b] steps are in reach of every step, whatever `causal` and `window` say (a prefix
        language model, Raffel et al. 2020, section 3.2.1).
    lengths: [B], s < lengths[b].
    segments: [B, T], with T == S, s is of the same segment as t.
    start: [B], query t of row b stands at step start[b] + t of the keys, as with a cache; None: at t.
    """

    causal: bool = False
    window: int = 0
    prefix: jax.Array | None = None
    lengths: jax.Array | None = None
    segments: jax.Array | None = None
    start: jax.Array | None = None

    def replace(self, **fields):
        return dataclasses.replace(self, **fields)

    def dense(self, T, S):
        """Booleans that broadcast to [B, 1, T, S], or None where everything may be looked at."""
        return self.block(0, T, 0, S)

    def block(self, t, T, s, S):
        """`dense` of the T queries from step t and the S keys from step s on; t and s may be traced."""
        keys = s + jnp.arange(S)
        seen = None
        if self.causal or self.window:
            ahead = keys - self.steps(t, T)[..., None]  # s - t, [T, S] or [B, 1, T, S]
            low, high = self.reach
            seen = True
            if high is not None:
                seen &= ahead <= high
            if low is not None:
                seen &= ahead >= low
            if self.prefix is not None:
                seen |= keys < self.prefix[:, None, None, None]
        if self.lengths is not None:
            seen = both(seen, keys < self.lengths[:, None, None, None])
        if self.segments is not None:
            of_queries, of_keys = (jax.lax.dynamic_slice_in_dim(self.segments, first, count, axis=1)
                                   for first, count in ((t, T), (s, S)))
            seen = both(seen, (of_queries[:, :, None] == of_keys[:, None])[:, None])
        return seen

    def span(self, t, T, S):
        """(first, stop) of the S keys: none outside is seen by one of the T queries from t on, whatever the arrays are."""
        low, high = self.reach
        if self.prefix is not None or self.start is not None:
            return 0, S
        first = 0 if low is None else min(max(t + low, 0), S)
        stop = S if high is None else min(max(t + T + high, first), S)
        return first, stop

    @property
    def reach(self):
        """(lowest, highest) s - t that `causal` and `window` allow; None where there is no limit."""
        if not self.window:
            return None, 0 if self.causal else None
        return (1 - self.window, 0) if self.causal else (-(self.window // 2), (self.window - 1) // 2)

    def steps(self, t, T):
        """Where the T queries from number t on stand: [T], or [B, 1, T] with a start."""
        steps = t + jnp.arange(T)
        return steps if self.start is None else self.start[:, None, None] + steps


def both(first, second):
    """first & second, where None is all True."""
    return second if first is None else first & second


def kept(seeds, rate, B, H, t, T, s, S):
    """[B, H, T, S] of booleans, True where dropout keeps a weight: a hash of the seeds, the row, the head and the two steps.

    It depends on where a weight stands and on nothing else, so that a block, and the backward pass, draw what the whole
    draws; and a hash costs a tenth of jax.random's bits, which attention would spend most of its time on. seeds: [2].
    """
    first, second = seeds
    heads = jnp.arange(B * H, dtype=jnp.uint32).reshape(B, H, 1, 1)
    queries = (t + jnp.arange(T)).astype(jnp.uint32)[:, None]
    keys = (s + jnp.arange(S)).astype(jnp.uint32)
    rows = _mix(_mix(heads ^ first) + queries)  # [B, H, T, 1]
    return _mix(rows ^ _mix(keys ^ second)) >= jnp.uint32(int(rate * 2 ** 32))


def _mix(x):
    """The finaliser of MurmurHash3: every bit of the input moves half of the output's."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
