"""Sampling: temperature, top-k, nucleus (top-p) and min-p, and the loop that draws token by token."""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from seqjax.decode.constraints import constrain
from seqjax.decode.generate import continue_prompts
from seqjax.decode.hypotheses import Hypotheses, log_softmax
from seqjax.decode.problem import Problem
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Sample:
    """Temperature, then top-k, then nucleus (top-p) and min-p filtering, then a draw. Temperature 0 is greedy.

        p_i ~ exp(logit_i / temperature), over the k likeliest tokens, of those over the fewest that together have
        probability p (Holtzman et al. 2020), and of those over the ones with p_i >= min_p max_j p_j (Nguyen et al. 2024).
    """

    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    min_p: float = 0.0  # 0: all tokens

    def __post_init__(self):
        if not 0 <= self.temperature < float('inf'):
            raise FieldError('temperature', self.temperature, 'must be at least 0 (0 is greedy)')
        if self.top_k < 0:
            raise FieldError('top_k', self.top_k, 'must be at least 0 (0 keeps all tokens)')
        if not 0 < self.top_p <= 1:
            raise FieldError('top_p', self.top_p, 'must be more than 0 and at most 1 (1 keeps all tokens)')
        if not 0 <= self.min_p <= 1:
            raise FieldError('min_p', self.min_p, 'must be at least 0 and at most 1 (0 keeps all tokens)')

    def __call__(self, key, logits):
        """logits [V] -> a token."""
        if self.temperature == 0:
            return jnp.argmax(logits).astype(jnp.int32)
        return jax.random.categorical(key, self._filtered(logits)).astype(jnp.int32)

    def probabilities(self, logits):
        """logits [V] -> [V], how likely each token is to be drawn."""
        if self.temperature == 0:
            return jax.nn.one_hot(jnp.argmax(logits), len(logits))
        return jax.nn.softmax(self._filtered(logits))

    def solve(self, problem: Problem) -> Hypotheses:
        return token_by_token(problem, self)

    def write(self, decoder, prompts, **options):
        """Continuations of prompts, whose window moves over long texts."""
        return continue_prompts(self, decoder, prompts, **options)

    @property
    def draws(self) -> bool:
        """Whether it needs a key."""
        return self.temperature > 0

    def _filtered(self, logits):
        logits = logits.astype(jnp.float32) / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            logits = keep_top_k(logits, self.top_k)
        if self.top_p < 1:
            logits = keep_top_p(logits, self.top_p)
        if self.min_p > 0:
            logits = keep_min_p(logits, self.min_p)
        return logits


def token_by_token(problem: Problem, choose: Callable[[jax.Array, jax.Array], jax.Array]) -> Hypotheses:
    """`Hypotheses` with k = 1: every row is written up to its end as choose(key, log P [V]) -> token says.

    A row's key is another one at every step. Scores are the log P under the model, whatever `choose` makes of it.
    """
    (step, state, first, T, end), limits, B = problem[:5], problem.row_limits(), len(problem.first)
    constraints, keys = problem.constraints, problem.keys

    def advance(carry):
        t, state, last, text, lengths, sums, running = carry
        state, logits = step(state, last)
        log_probs = constrain(constraints, log_softmax(logits), text, t, end)
        tokens = jax.vmap(lambda key, row: choose(jax.random.fold_in(key, t), row))(keys, log_probs)  # [B]
        gained = jnp.take_along_axis(log_probs, tokens[:, None], axis=-1)[:, 0]
        text = text.at[:, t].set(jnp.where(running, tokens, 0))
        lengths, sums = lengths + running.astype(jnp.int32), sums + jnp.where(running, gained, 0)
        return t + 1, state, tokens, text, lengths, sums, running & (tokens != end) & (t + 1 < limits)

    def unfinished(carry):
        t, *_, running = carry
        return (t < T) & running.any()

    start = (jnp.int32(0), state, first.astype(jnp.int32), jnp.zeros((B, T), jnp.int32), jnp.zeros(B, jnp.int32),
             jnp.zeros(B), limits > 0)
    _, _, _, text, lengths, sums, _ = jax.lax.while_loop(unfinished, advance, start)
    sums = jnp.where(lengths > 0, sums, -jnp.inf)[:, None]
    return Hypotheses(text[:, None], lengths[:, None], sums, sums)


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


def keep_min_p(logits, p):
    """-inf for all logits [V] of tokens that are less than p times as likely as the likeliest one."""
    return jnp.where(logits >= logits.max() + jnp.log(p), logits, -jnp.inf)
