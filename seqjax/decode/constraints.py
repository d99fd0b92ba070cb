"""What a search may write. A constraint is a function

    constraint(allowed [N, V], history [N, T], t) -> allowed [N, V]

of the tokens written so far, history[:, :t], and of what the constraints before it allow: it takes tokens away, or decides
by itself, as `Prefix` does, which therefore comes last. What is left keeps its log P: nothing is normalised again, so a
constrained score is the score of the tokens under the model.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError


def constrain(constraints, log_probs, history, t, end):
    """log_probs [N, V] with -inf for what is forbidden.

    Where nothing is left the end is, so that every row can go on; and where there is no end, for end is -1, everything.
    """
    if not constraints:
        return log_probs
    allowed = jnp.ones(log_probs.shape, bool)
    for constraint in constraints:
        allowed = constraint(allowed, history, t)
    left = jnp.where(allowed, log_probs, -jnp.inf)
    stuck = ~(left > -jnp.inf).any(axis=-1, keepdims=True)  # [N, 1]
    rescued = (jnp.arange(log_probs.shape[-1]) == end) | (end < 0)  # [V]
    return jnp.where(stuck & rescued, log_probs, left)


@dataclasses.dataclass(frozen=True)
class NoRepeat:
    """No n tokens in a row are written twice (Paulus et al. 2018, section 2.5)."""

    n: int

    def __post_init__(self):
        if self.n < 1:
            raise FieldError('n', self.n, 'must be at least 1')

    def __call__(self, allowed, history, t):
        (N, T), n = history.shape, self.n
        if T < n:
            return allowed
        last = jax.lax.dynamic_slice_in_dim(history, t - (n - 1), n - 1, axis=1)  # [N, n - 1]
        starts = T - (n - 1)
        before = jnp.ones((N, starts), bool)  # whether the n - 1 tokens from here on are the last n - 1
        for i in range(n - 1):
            before &= history[:, i:i + starts] == last[:, i:i + 1]
        written = jnp.arange(starts) < t - (n - 1)  # whether the token after them is there already
        return allowed.at[jnp.arange(N)[:, None], history[:, n - 1:]].min(~(before & written))


@dataclasses.dataclass(frozen=True)
class MinLength:
    """At least n tokens, the end counted: it is not written before."""

    n: int
    end: int

    def __call__(self, allowed, history, t):
        return allowed & ((t + 1 >= self.n) | (jnp.arange(allowed.shape[-1]) != self.end))


class Prefix(NamedTuple):
    """Row b begins with tokens[b, :lengths[b]], whatever the constraints before it say. tokens: [B, P]; lengths: [B]."""

    tokens: jax.Array
    lengths: jax.Array

    def __call__(self, allowed, history, t):
        N, V = allowed.shape
        B, P = self.tokens.shape
        if P == 0:
            return allowed
        given = jnp.take(jnp.asarray(self.tokens), jnp.minimum(t, P - 1), axis=1)  # [B]
        given, forced = (jnp.repeat(part, N // B)[:, None] for part in (given, t < jnp.asarray(self.lengths)))
        return jnp.where(forced, jnp.arange(V) == given, allowed)
