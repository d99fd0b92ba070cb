"""Beam search, plain and diverse: one compiled loop that knows no model.

Shapes: B rows, G groups of w hypotheses, k = G w hypotheses of a row, N = B k of all rows, T steps, S source steps.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from seqjax.decode.constraints import constrain
from seqjax.decode.generate import continue_prompts
from seqjax.decode.hypotheses import (Hypotheses, check_not_negative, coverage_score, length_normalised, log_softmax)
from seqjax.decode.problem import Problem
from seqjax.decode.sampling import Sample
from seqjax.errors import FieldError

DROPPED, GOES_ON, FINISHED = range(3)


class BeamTrace(NamedTuple):
    """The 2k candidates of every step, [B, T, 2k] each, group after group and best first.

    tokens; parents: the live slot at the step before that it grew from; scores: sum of log P, -inf where there is no
    candidate; fate: DROPPED, GOES_ON or FINISHED (ended, or taken as it is at the last step); slots: the live slot that it
    becomes, or -1.
    """

    tokens: jax.Array
    parents: jax.Array
    scores: jax.Array
    fate: jax.Array
    slots: jax.Array


class _Candidates(NamedTuple):
    """The best 2w of every group: [B, G, 2w] each. parents: slots within the group."""

    log_probs: jax.Array
    tokens: jax.Array
    parents: jax.Array
    ends: jax.Array  # whether it ends here and is good enough
    goes_on: jax.Array  # whether it is one of the next w live ones


class _Finished(NamedTuple):
    """The best w finished ones of every group, [B, G, w] each: a last token and the live slot before it."""

    scores: jax.Array
    log_probs: jax.Array
    lengths: jax.Array
    tokens: jax.Array
    parents: jax.Array


class _Beam(NamedTuple):
    t: jax.Array
    last: jax.Array  # [N], the token to read next
    live: jax.Array  # [B, G, w], log P of what goes on; -inf: an empty slot. A group is done when all of its slots are empty
    follows: tuple  # what moves with a hypothesis, N rows each: the model's state, history and coverage where needed
    tokens: jax.Array  # [T, B, k], what was put into every slot at every step
    parents: jax.Array  # [T, B, k], and the slot it came from
    finished: _Finished
    trace: Any


@dataclasses.dataclass(frozen=True)
class Beam:
    """Beam search, plain and diverse: the num_beams = k best of every row that a beam finds.

        score(Y) = log P(Y) / ((5 + |Y|) / 6) ** length_penalty + coverage_penalty * sum_s log(min(sum_t a_ts, 1))

    (Wu et al. 2016, eq. 14.) A row has k live hypotheses and up to k finished ones. Of all ways to go on, the best 2k by
    log P are candidates. An end among the best k of them finishes; the best k of those that do not end are the next live
    ones. So num_beams=1 is greedy. A row is done when it has k finished ones, or after max_length tokens, where live ones are
    taken as they are, without an end. Of finished ones the best k by score are kept. Rows do not influence each other.

    num_beam_groups: diverse beam search (Vijayakumar et al. 2018). Every group is a beam of w = k / num_beam_groups; a group chooses its
    candidates by log P - diversity_penalty * (how often the groups before it went on or ended with this token at this step). That
    term chooses, and is not added up over the steps; of hypotheses that two groups found, one is returned.
    n_best: how many of the k are returned; 0: all.
    """

    num_beams: int = 5
    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    n_best: int = 0

    def __post_init__(self):
        check_not_negative(self, 'length_penalty', 'coverage_penalty', 'diversity_penalty')
        if self.num_beams < 1:
            raise FieldError('num_beams', self.num_beams, 'must be at least 1')
        if self.num_beam_groups < 1 or self.num_beams % self.num_beam_groups:
            raise FieldError('num_beam_groups', self.num_beam_groups, f'must divide num_beams={self.num_beams}')
        if self.num_beam_groups > 1 and not self.diversity_penalty > 0:
            raise FieldError('diversity_penalty', self.diversity_penalty,
                             f'must be more than 0, or the {self.num_beam_groups} groups are {self.num_beam_groups} times the same')
        if self.num_beam_groups == 1 and self.diversity_penalty:
            raise FieldError('diversity_penalty', self.diversity_penalty, 'is between groups, and there is one; write 0, or more groups')
        if not 0 <= self.n_best <= self.num_beams:
            raise FieldError('n_best', self.n_best, f'must be at least 1 and at most num_beams={self.num_beams}')

    def solve(self, problem: Problem) -> Hypotheses:
        found, _ = self.traced(problem, trace=False)
        return jax.tree.map(lambda leaf: leaf[:, :self.n_best], found) if self.n_best else found

    def traced(self, problem: Problem, trace: bool = True) -> tuple[Hypotheses, BeamTrace | None]:
        """(all k hypotheses of every row, what became of all candidates)."""
        return _search(self, problem, trace)


@dataclasses.dataclass(frozen=True)
class Greedy:
    """The likeliest token at every step, up to the end."""

    def solve(self, problem: Problem) -> Hypotheses:
        return Beam(1).solve(problem)

    def write(self, decoder, prompts, **options):
        """Continuations of prompts, whose window moves over long texts."""
        return continue_prompts(Sample(0.0), decoder, prompts, **options)


def _search(chosen, problem, trace):
    if chosen.coverage_penalty and (problem.attention is None or problem.source_mask is None):
        raise FieldError('coverage_penalty', chosen.coverage_penalty, 'needs attention and source_mask')
    (step, state, first, T, end), limits = problem[:5], problem.row_limits()
    constraints, attention, source_mask = problem.constraints, problem.attention, problem.source_mask
    length_penalty, coverage_penalty, diversity = chosen.length_penalty, chosen.coverage_penalty, chosen.diversity_penalty
    B, k, groups = len(first), chosen.num_beams, chosen.num_beam_groups
    w = k // groups
    group_starts = w * jnp.arange(groups)[:, None]  # [G, 1], the first slot of a group

    def advance(beam):
        t, (state, history, coverage) = beam.t, beam.follows
        state, logits = step(state, beam.last)
        log_probs = constrain(constraints, log_softmax(logits), history, t, end)
        found = _candidates(beam.live, log_probs.reshape(B, groups, w, -1), end, diversity)
        parents = found.parents + group_starts  # [B, G, 2w], slots within the row
        scores = length_normalised(found.log_probs, t + 1, length_penalty)
        if coverage is not None:
            coverage = coverage + _weights(attention, state, coverage_penalty)
            penalties = coverage_penalty * coverage_score(coverage.reshape(B, k, -1), source_mask[:, None])
            scores += jnp.take_along_axis(penalties[:, None], parents, axis=-1)

        last_step = (t + 1 >= limits)[:, None, None]
        finishes = found.ends | found.goes_on & last_step
        new = _Finished(jnp.where(finishes, scores, -jnp.inf), found.log_probs, jnp.full_like(found.tokens, t + 1),
                        found.tokens, parents)
        finished = _best(w, jax.tree.map(lambda *both: jnp.concatenate(both, axis=-1), beam.finished, new))
        done = last_step | (finished.scores > -jnp.inf).all(axis=-1, keepdims=True)
        goes_on = found.goes_on & ~done

        order = jnp.argsort(~goes_on, axis=-1, stable=True)[..., :w]  # those that go on, best first
        pick = lambda array: jnp.take_along_axis(array, order, axis=-1)
        live = pick(jnp.where(goes_on, found.log_probs, -jnp.inf))
        last, came_from = pick(found.tokens).reshape(B, k), pick(parents).reshape(B, k)
        if k > 1:
            rows = (k * jnp.arange(B)[:, None] + came_from).reshape(-1)
            state, history, coverage = jax.tree.map(lambda leaf: leaf[rows], (state, history, coverage))
        if constraints:
            history = history.at[:, t].set(last.reshape(-1))
        seen = _traced(found, parents, finishes, goes_on, group_starts) if trace else None
        seen = jax.tree.map(lambda steps, now: steps.at[t].set(now.reshape(B, 2 * k)), beam.trace, seen)
        return _Beam(t + 1, last.reshape(-1), live, (state, history, coverage), beam.tokens.at[t].set(last),
                     beam.parents.at[t].set(came_from), finished, seen)

    def unfinished(beam):
        return (beam.t < T) & (beam.live > -jnp.inf).any()

    follows = (jax.tree.map(lambda leaf: jnp.repeat(leaf, k, axis=0), state),
               jnp.zeros((B * k, T), jnp.int32) if constraints else None,
               jnp.zeros((B * k, source_mask.shape[1])) if coverage_penalty else None)
    beam = jax.lax.while_loop(unfinished, advance, _start(first, limits, groups, w, T, follows, trace))
    found = _best(k, jax.tree.map(lambda leaf: leaf.reshape(B, k), beam.finished))
    found = _read_back(found, beam.tokens, beam.parents)
    found = _without_copies(found) if groups > 1 else found
    return found, jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), beam.trace)


def _start(first, limits, groups, w, T, follows, trace):
    """One live hypothesis a group, of no tokens; none in rows of padding."""
    B, k = len(first), groups * w
    nothing, zeros = jnp.full((B, groups, w), -jnp.inf), jnp.zeros((B, groups, w), jnp.int32)
    live = nothing.at[:, :, 0].set(jnp.where(limits > 0, 0.0, -jnp.inf)[:, None])
    steps, candidates = jnp.zeros((T, B, k), jnp.int32), jnp.zeros((T, B, 2 * k), jnp.int32)
    empty = BeamTrace(candidates, candidates, jnp.full(candidates.shape, -jnp.inf), candidates, candidates - 1)
    return _Beam(jnp.int32(0), jnp.repeat(first.astype(jnp.int32), k), live, follows, steps, steps,
                 _Finished(nothing, nothing, zeros, zeros, zeros), empty if trace else None)


def _candidates(live, log_probs, end, diversity):
    """`_Candidates` of live [B, G, w] and log_probs [B, G, w, V]; each group looks at those before it."""
    B, G, w, V = log_probs.shape
    counts, groups = jnp.zeros((B, 1, V)), []  # how often a token was chosen at this step
    for g in range(G):
        sums = live[:, g, :, None] + log_probs[:, g]  # [B, w, V]
        ranked = sums - diversity * counts if g else sums
        _, best = jax.lax.top_k(ranked.reshape(B, w * V), 2 * w)
        sums, tokens = jnp.take_along_axis(sums.reshape(B, w * V), best, axis=-1), best % V  # [B, 2w]
        possible = sums > -jnp.inf  # of an empty slot nothing is, and where the model gives no numbers neither
        ends = possible & (tokens == end) & (jnp.arange(2 * w) < w)
        others = possible & (tokens != end)
        goes_on = others & (jnp.cumsum(others, axis=-1) <= w)
        counts = counts.at[jnp.arange(B)[:, None], 0, tokens].add((ends | goes_on).astype(jnp.float32))
        groups.append(_Candidates(jnp.where(possible, sums, -jnp.inf), tokens, best // V, ends, goes_on))
    return jax.tree.map(lambda *parts: jnp.stack(parts, axis=1), *groups)


def _weights(attention, state, coverage_penalty):
    weights = attention(state)
    if weights is None:
        raise FieldError('coverage_penalty', coverage_penalty, 'the model has no attention; write 0')
    return weights.astype(jnp.float32)


def _best(n, finished):
    """The best n by score along the last axis; of equal ones those that were first."""
    _, order = jax.lax.top_k(finished.scores, n)
    return jax.tree.map(lambda leaf: jnp.take_along_axis(leaf, order, axis=-1), finished)


def _traced(found, parents, finishes, goes_on, group_starts):
    possible = found.log_probs > -jnp.inf
    fate = jnp.where(finishes, FINISHED, jnp.where(goes_on, GOES_ON, DROPPED))
    slots = jnp.where(goes_on, jnp.cumsum(goes_on, axis=-1) - 1 + group_starts, -1)
    return BeamTrace(jnp.where(possible, found.tokens, 0), jnp.where(possible, parents, 0), found.log_probs, fate, slots)


def _read_back(finished, tokens, parents):
    """`Hypotheses` of finished ones [B, k], from their last token back along the slots that they came from."""
    real = finished.scores > -jnp.inf
    lengths = jnp.where(real, finished.lengths, 0)

    def back(slots, step):
        t, tokens, parents = step
        last, within = t == lengths - 1, t < lengths - 1
        of = lambda array, otherwise: jnp.where(within, jnp.take_along_axis(array, slots, axis=-1), otherwise)
        return jnp.where(last, finished.parents, of(parents, slots)), jnp.where(last, finished.tokens, of(tokens, 0))

    steps = jnp.arange(len(tokens)), tokens, parents
    _, text = jax.lax.scan(back, jnp.zeros_like(lengths), steps, reverse=True)  # [T, B, k]
    return Hypotheses(text.transpose(1, 2, 0), lengths, finished.scores, jnp.where(real, finished.log_probs, -jnp.inf))


def _without_copies(found):
    """Of equal texts of a row the first one stays; the places of the others are empty, at the end."""
    k = found.tokens.shape[1]
    texts = jnp.concatenate([found.tokens, found.lengths[:, :, None]], axis=-1)  # [B, k, T + 1]
    same = (texts[:, :, None] == texts[:, None]).all(axis=-1)  # [B, k, k]
    copy = (same & jnp.tri(k, k=-1, dtype=bool)).any(axis=-1)  # [B, k], equal to one before it
    order = jnp.argsort(copy, axis=-1, stable=True)
    pick = lambda leaf, empty: jnp.take_along_axis(jnp.where(copy, empty, leaf), order, axis=-1)
    tokens = jnp.take_along_axis(jnp.where(copy[:, :, None], 0, found.tokens), order[:, :, None], axis=1)
    return Hypotheses(tokens, pick(found.lengths, 0), pick(found.scores, -jnp.inf), pick(found.log_probs, -jnp.inf))
