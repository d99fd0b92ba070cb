"""The best hypothesis there is, by best-first (A*) search on the host: what a beam only approximates, for small problems."""

import dataclasses
import heapq
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.decode.constraints import constrain
from seqjax.decode.hypotheses import Hypotheses, length_normalised, log_softmax
from seqjax.decode.problem import Problem
from seqjax.errors import FieldError

STEPS, WAYS = 20_000, 2_000_000  # prefixes that an exact search may grow, and ways to go on that it may keep


@dataclasses.dataclass(frozen=True)
class Exact:
    """Exact search: the n_best best of one row by the score of `Beam` with this length_penalty.

    All sequences take part that end within max_length tokens, and those of max_length tokens without an end.

    A prefix of l tokens with log P = p is worth no more than

        bound(p, l) = max(p / lp(l + 1), p / lp(max_length)) >= score of all that begins with it,

    since log P only falls and lp is monotonic in the length. The prefix with the highest bound is grown first; a finished
    sequence that comes up before all others is the best (Hart et al. 1968). expansions: how many prefixes may be grown;
    the number can rise as V ** max_length. 0: STEPS, or as many as have WAYS ways to go on.
    """

    length_penalty: float = 0.0
    n_best: int = 1
    expansions: int = 100_000
    on_host: ClassVar[bool] = True

    def __post_init__(self):
        if self.n_best < 1:
            raise FieldError('n_best', self.n_best, 'must be at least 1')

    def solve(self, problem: Problem) -> Hypotheses:
        """Takes a problem of one row."""
        if len(problem.first) != 1:
            raise ValueError(f'exact search takes one row, and here are {len(problem.first)}; call it once for each')
        return _search(self, problem)


def _search(exact, problem):
    (step, state, first, _, end), constraints = problem[:5], problem.constraints
    max_length, length_penalty, n_best = int(problem.row_limits()[0]), exact.length_penalty, exact.n_best
    vocabulary = jax.eval_shape(step, state, first)[1].shape[-1]
    expansions = exact.expansions or min(STEPS, WAYS // vocabulary)
    step, number, grown, found = jax.jit(step), itertools.count(), 0, []
    score = lambda log_prob, length: float(length_normalised(log_prob, np.float64(length), length_penalty))
    bound = lambda log_prob, length: max(score(log_prob, length + 1), score(log_prob, max_length))
    queue = [(0.0, next(number), 0.0, (), state)]  # (-bound or -score, number, log P, tokens, the state before the last)
    while queue and len(found) < n_best:
        worth, _, log_prob, tokens, state = heapq.heappop(queue)
        if tokens and (tokens[-1] == end or len(tokens) == max_length):
            found.append((tokens, -worth, log_prob))
            continue
        if grown == expansions:
            if not exact.expansions:
                of = '' if problem.source_mask is None else f' to a row of {int(problem.source_mask.sum())} tokens'
                raise FieldError('exact', True, f'there is too much to search: {expansions:,} beginnings of answers{of} do '
                                 f'not show the best one, of up to {max_length} tokens out of {vocabulary:,}; write false and search '
                                 'with a beam, or make it easier with length_penalty=0 or a smaller max_new_tokens')
            raise FieldError('expansions', expansions, f'are not enough to be sure of the {n_best} best; allow more, or '
                             'write a smaller max_length')
        grown += 1
        state, logits = step(state, jnp.asarray(tokens[-1:] or first, jnp.int32))
        history = np.zeros((1, max_length), np.int32)
        history[0, :len(tokens)] = tokens
        allowed = constrain(constraints, log_softmax(logits), jnp.asarray(history), jnp.int32(len(tokens)), end)
        for token, gained in enumerate(np.asarray(allowed)[0].tolist()):
            if gained > -np.inf:
                sum_, length = log_prob + gained, len(tokens) + 1
                complete = token == end or length == max_length
                value = score(sum_, length) if complete else bound(sum_, length)
                heapq.heappush(queue, (-value, next(number), sum_, (*tokens, token), state))
    return _as_hypotheses(found, n_best, max_length)


def _as_hypotheses(found, n, max_length):
    tokens, lengths = np.zeros((1, n, max_length), np.int32), np.zeros((1, n), np.int32)
    scores, log_probs = np.full((2, 1, n), -np.inf, np.float32)
    for place, (text, score, log_prob) in enumerate(found):
        tokens[0, place, :len(text)], lengths[0, place] = text, len(text)
        scores[0, place], log_probs[0, place] = score, log_prob
    return Hypotheses(tokens, lengths, scores, log_probs)
