"""What a decoding method solves: one batch behind the step interface, and what its answers may be."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError


class Problem(NamedTuple):
    """B sequences to write, by a step function that knows no model.

        step(state, tokens [N]) -> (state, logits [N, V])      N = B k, the k hypotheses of a row together

    Args:
        state: B rows, before the first token. first: [B], the token that is read first.
        max_length: tokens of the longest answer. end: the end token, -1 where there is none.
        limits: [B], a row's own max_length where it is shorter; 0 for rows that are padding.
        constraints: see `decode.constraints`.
        keys: [B], for a method that draws: what a row becomes depends on its own key alone.
        attention: state -> [N, S], the weights of the step that led to it. source_mask: [B, S],
            True where the source is no padding.
    """

    step: Callable
    state: Any
    first: jax.Array
    max_length: int
    end: int
    limits: Any = None
    constraints: tuple = ()
    keys: Any = None
    attention: Callable | None = None
    source_mask: Any = None

    def row_limits(self) -> jax.Array:
        """[B]: how long the answer to a row may be."""
        if self.max_length < 1:
            raise FieldError('max_length', self.max_length, 'must be at least 1')
        limits = jnp.full(len(self.first), self.max_length) if self.limits is None else self.limits
        return jnp.minimum(limits, self.max_length)
