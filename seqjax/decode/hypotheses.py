"""What a search returns, and how a finished hypothesis is ranked."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.errors import FieldError


class Hypotheses(NamedTuple):
    """The k best of every row, best first. Where a row has fewer, scores and log_probs are -inf and lengths 0.

    tokens: [B, k, T], 0 after the last one; lengths: [B, k], the end token counted; scores: [B, k], what they are sorted by;
    log_probs: [B, k], the plain sum of log P over the tokens.
    """

    tokens: jax.Array
    lengths: jax.Array
    scores: jax.Array
    log_probs: jax.Array

    def rows(self) -> list['Hypotheses']:
        """Those of every row by itself, on the host: only hypotheses that there are, tokens [k, T] no longer than the
        longest of them, lengths, scores and log_probs [k]."""
        tokens, lengths, scores, log_probs = map(np.asarray, self)
        return [Hypotheses(tokens[b, real, :lengths[b].max(initial=0)], lengths[b, real], scores[b, real], log_probs[b, real])
                for b, real in enumerate(lengths > 0)]

    @property
    def texts(self) -> list[np.ndarray]:
        """Of one row: the tokens of each hypothesis, its end included where it has one."""
        return [tokens[:length] for tokens, length in zip(self.tokens, self.lengths)]


NONE = Hypotheses(np.zeros((0, 0), np.int32), np.zeros(0, np.int32), *np.zeros((2, 0), np.float32))  # of one row


def log_softmax(logits):
    """log P in float32, whatever the model computes in. Leaves log-probabilities as they are."""
    return jax.nn.log_softmax(logits.astype(jnp.float32))


def log_prob_of(tokens, logits):
    """log P [...] of tokens [...] under logits [..., V]."""
    return jnp.take_along_axis(log_softmax(logits), tokens[..., None], axis=-1)[..., 0]


def length_normalised(log_probs, lengths, penalty):
    """log P / lp(Y) with lp(Y) = ((5 + |Y|) / 6) ** penalty (Wu et al. 2016, eq. 14). The end token counts in |Y|."""
    return log_probs / ((5 + lengths) / 6) ** penalty


def coverage_score(coverage, mask):
    """cp = sum_s log(min(sum_t a_ts, 1)) over the real source steps (Wu et al. 2016, eq. 14): 0 where all were looked at.

    coverage: [..., S], the attention weights summed over the steps so far; mask: [..., S]. A step that was never looked at
    counts as the smallest float would, so that no hypothesis becomes impossible.
    """
    seen = jnp.clip(coverage, jnp.finfo(coverage.dtype).tiny, 1)
    return jnp.where(mask, jnp.log(seen), 0).sum(axis=-1)


def check_not_negative(fields, *names):
    """Those fields of a dataclass must be finite numbers of at least 0."""
    for name in names:
        if not 0 <= getattr(fields, name) < float('inf'):
            raise FieldError(name, getattr(fields, name), 'must be at least 0')
