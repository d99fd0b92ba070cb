"""Choosing the next token from logits."""

import dataclasses

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Sampler:
    """Temperature, then top-k, then nucleus (top-p) filtering, then a draw. Temperature 0 is greedy.

        p_i ~ exp(logit_i / temperature), over the k likeliest tokens, and of those over the fewest that together have
        probability p (Holtzman et al. 2020).
    """

    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0

    def __post_init__(self):
        if not 0 <= self.temperature < float('inf'):
            raise FieldError('temperature', self.temperature, 'must be at least 0 (0 is greedy)')
        if self.top_k < 0:
            raise FieldError('top_k', self.top_k, 'must be at least 0 (0 keeps all tokens)')
        if not 0 < self.top_p <= 1:
            raise FieldError('top_p', self.top_p, 'must be more than 0 and at most 1 (1 keeps all tokens)')

    def __call__(self, key, logits):
        """logits [V] -> a token."""
        if self.temperature == 0:
            return jnp.argmax(logits).astype(jnp.int32)
        logits = logits.astype(jnp.float32) / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            logits = keep_top_k(logits, self.top_k)
        if self.top_p < 1:
            logits = keep_top_p(logits, self.top_p)
        return jax.random.categorical(key, logits).astype(jnp.int32)


def keep_top_k(logits, k):
    """-inf for all but exactly k of the logits [V]; of equal ones the first."""
    values, tokens = jax.lax.top_k(logits, k)
    return jnp.full_like(logits, -jnp.inf).at[tokens].set(values)


def keep_top_p(logits, p):
    """-inf for all but the fewest likeliest tokens that together have probability at least p; always keeps one."""
    order = jnp.argsort(logits, descending=True)
    probabilities = jax.nn.softmax(logits[order])
    before = jnp.cumsum(probabilities) - probabilities  # the mass of all likelier tokens
    return jnp.full_like(logits, -jnp.inf).at[order].set(jnp.where(before < p, logits[order], -jnp.inf))
