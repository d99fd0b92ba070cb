"""The linear-chain conditional random field: labels of a row are judged together (Lafferty et al. 2001; Lample et al. 2016).

    score(y) = start[y_1] + sum_t s_t[y_t] + sum_{t>1} between[y_{t-1}, y_t] + end[y_T]
    P(y) = exp(score(y)) / Z,     Z = sum over all C^T paths, in O(T C^2):

    alpha_1 = start + s_1,     alpha_t[j] = s_t[j] + log sum_i exp(alpha_{t-1}[i] + between[i, j])
    log Z = log sum_i exp(alpha_T[i] + end[i])

Where a row holds several sequences, `segments` [B, T] changes from one to the next: from the last label i of the one to the
first label j of the next the score is end[i] + start[j], so that paths, Z and all that follows are those of separate rows.

Shapes: scores s [B, T, C]; lengths [B] or None. All is computed in float32. What lies past a row's length counts for
nothing; a row of no steps has the one empty path, with score 0. A transition that must not be is a large negative number,
such as -1e4, rather than -inf: where all paths are forbidden, gradients must still exist.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from seqjax.ops.pooling import last_step, mask_steps, valid_steps


class Transitions(NamedTuple):
    """start [C]: of a row's first label. between [C, C]: from one label (row) to the next (column). end [C]: of its last."""

    start: jax.Array
    between: jax.Array
    end: jax.Array


def crf_log_likelihood(scores, transitions, targets, lengths=None, segments=None):
    """log P(targets) of every row, [B]. targets: [B, T] of labels."""
    log_partition = crf_log_partition(scores, transitions, lengths, segments)
    scores, (start, between, end), lengths = _prepare(scores, transitions, lengths)
    valid = valid_steps(lengths, scores.shape[1])
    targets = jnp.where(valid, targets, 0)
    chosen = jnp.take_along_axis(scores, targets[:, :, None], axis=2)[:, :, 0]  # [B, T]; zero past the end
    steps = between[targets[:, :-1], targets[:, 1:]]
    if segments is not None:
        steps = jnp.where(_borders(segments), end[targets[:, :-1]] + start[targets[:, 1:]], steps)
    steps = jnp.where(valid[:, 1:], steps, 0)  # [B, T - 1]
    ends = start[targets[:, 0]] + end[last_step(targets[:, :, None], lengths)[:, 0]]
    return chosen.sum(axis=1) + steps.sum(axis=1) + jnp.where(lengths > 0, ends, 0) - log_partition


def crf_log_partition(scores, transitions, lengths=None, segments=None):
    """log Z of every row, [B]."""
    scores, (start, between, end), lengths = _prepare(scores, transitions, lengths)

    def step(alpha, now):
        s, valid, border = now
        new = s + jax.nn.logsumexp(alpha[:, :, None] + _onward((start, between, end), border), axis=1)  # [B, C]
        return jnp.where(valid[:, None], new, alpha), None

    alpha, _ = jax.lax.scan(step, start + scores[:, 0], _steps(scores, lengths, segments))
    return jnp.where(lengths > 0, jax.nn.logsumexp(alpha + end, axis=1), 0)


def crf_decode(scores, transitions, lengths=None, segments=None):
    """The most probable path of every row, [B, T], by Viterbi's algorithm (Viterbi 1967); 0 past its length."""
    scores, (start, between, end), lengths = _prepare(scores, transitions, lengths)
    stay = jnp.arange(scores.shape[2])

    def step(best, now):
        s, valid, border = now
        paths = best[:, :, None] + _onward((start, between, end), border)  # [B, C, C]
        came_from = jnp.where(valid[:, None], paths.argmax(axis=1), stay)  # past the end a path stays where it is
        return jnp.where(valid[:, None], s + paths.max(axis=1), best), came_from

    def back(label, came_from):
        before = jnp.take_along_axis(came_from, label[:, None], axis=1)[:, 0]
        return before, before

    best, came_from = jax.lax.scan(step, start + scores[:, 0], _steps(scores, lengths, segments))
    last = (best + end).argmax(axis=1)  # [B]
    _, before = jax.lax.scan(back, last, came_from, reverse=True)
    path = jnp.concatenate((before, last[None])).T
    return jnp.where(valid_steps(lengths, path.shape[1]), path, 0)


def crf_marginals(scores, transitions, lengths=None, segments=None):
    """P(y_t = c) of every step, [B, T, C]: the gradient of log Z with respect to the scores; 0 past a row's length."""
    scores = scores.astype(jnp.float32)
    return jax.grad(lambda scores: crf_log_partition(scores, transitions, lengths, segments).sum())(scores)


def _prepare(scores, transitions, lengths):
    """Everything in float32, scores 0 past each row's length, and a length for every row."""
    B, T, _ = scores.shape
    lengths = jnp.full(B, T, jnp.int32) if lengths is None else lengths
    transitions = Transitions(*(part.astype(jnp.float32) for part in transitions))
    return mask_steps(scores.astype(jnp.float32), lengths), transitions, lengths


def _steps(scores, lengths, segments):
    """What the loops read after the first step: scores [T - 1, B, C], which rows still run and, where there are segments,
    which begin another [T - 1, B]."""
    borders = None if segments is None else _borders(segments).T
    return jnp.moveaxis(scores, 1, 0)[1:], valid_steps(lengths, scores.shape[1]).T[1:], borders


def _borders(segments):
    """[B, T - 1]: whether the next step is of another segment."""
    return segments[:, 1:] != segments[:, :-1]


def _onward(transitions, border):
    """The score of going from one label to the next, [C, C], or [B, C, C] where some rows begin another segment."""
    start, between, end = transitions
    return between if border is None else jnp.where(border[:, None, None], end[:, None] + start, between)
