"""Batches of ragged rows in few shapes. The batch of a step is a pure function of (seed, step).

A row goes to the shortest bucket it fits in, and a batch has rows of one bucket only, filled up with zeros to that
bucket's length. Every bucket is an endless stream of epochs, each in an order of its own, and its batches are cut from
the stream without regard to where an epoch ends: no row is dropped and none is made up. Up to the end of E epochs

    bucket k with n_k rows gives floor(E n_k / B_k) batches,

with B_k rows in each, as many in all buckets or not, and what an epoch adds to them, over all buckets, is mixed.
"""

import bisect
import dataclasses
import functools
import math

import grain
import numpy as np

from seqjax.data.batches.per_process import ENDLESS
from seqjax.errors import FieldError, suggestion


def plan_buckets(lengths, shapes):
    """The row lengths, at most `shapes` of them, that need the fewest padded positions; ascending, the longest is last.

    With the lengths l_1 < ... < l_m and C_j rows of the first j of them, the least number of positions in k buckets is

        f_k(j) = min_i f_{k-1}(i) + l_j (C_j - C_i)

    A row of no steps takes one.
    """
    found, counts = np.unique(np.maximum(lengths, 1), return_counts=True)
    rows = np.concatenate([[0], np.cumsum(counts)])  # C
    cost = np.concatenate([[0], found]) * (rows - rows[:, None]).astype(float)  # [i, j]: one bucket for lengths i + 1 to j
    cost[np.tril_indices(len(cost))] = np.inf
    best, origins = cost[0], []
    for _ in range(min(shapes, len(found)) - 1):
        through = best[:, None] + cost
        origins.append(through.argmin(axis=0))
        best = through.min(axis=0)
    ends = [len(found)]
    for origin in reversed(origins):
        ends.append(origin[ends[-1]])
    return tuple(int(found[end - 1]) for end in reversed(ends))


MODES = {
    'bucket': plan_buckets,
    'pad': lambda lengths, shapes: plan_buckets(lengths, 1),
    'exact': lambda lengths, shapes: tuple(np.unique(np.maximum(lengths, 1)).tolist()),
}


def bucket_lengths(mode, lengths, shapes=1):
    """The buckets of a mode: the best few ('bucket'), the longest row ('pad'), or each length its own ('exact')."""
    if mode not in MODES:
        raise FieldError('data.batching', mode, f'no such way; {suggestion(mode, MODES)}')
    return MODES[mode](lengths, shapes)


def efficiency(lengths, buckets, batch_size=1):
    """Real positions over computed ones, where the last batch of every bucket is filled up, as in evaluation.

    Training fills no batch up: its efficiency is that of batch_size=1.
    """
    bucket = _buckets_of(lengths, buckets)
    rows = np.bincount(bucket, minlength=len(buckets))
    return float(np.sum(lengths) / ((rows + -rows % batch_size) * buckets).sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of any lengths, batch by batch.

    row: i -> {'inputs': array or {name: array}, 'targets': array, 'weights': array}. Arrays have time as their first axis
    and are filled up with zeros; numbers stay numbers. lengths: steps of every row. buckets: see `bucket_lengths`.
    batch_size: rows of a batch, or of a batch of every bucket. filled: what the arrays of a bucket's rows are filled up to,
    where that is not the bucket's length: a number, or {'inputs': S, 'targets': T, 'weights': T}.
    drawn: (i, rng) -> row i as it is trained on, no longer than it is; rng depends on (seed, step, place in the batch) alone.
    A batch has 'lengths' [B] beside what the rows have. A row that only fills up a batch is all zeros, its length and
    weight too.
    """

    row: callable
    lengths: np.ndarray
    buckets: tuple[int, ...]
    batch_size: int | tuple[int, ...]
    filled: tuple | None = None
    drawn: callable = None

    def training(self, seed, process=0, processes=1):
        """An endless grain dataset: element `step` is this process's rows of the global batch of that step."""
        order = _Order(self._members, self.batch_size, seed)
        if self.drawn is None:
            return self._batches(grain.MapDataset.range(ENDLESS), order.__getitem__, process, processes)
        # The last number keeps these generators apart from those of the order.
        drawn = lambda i, step, b: self.drawn(i, np.random.default_rng((seed, 0, step, b, 1)))
        return self._batches(grain.MapDataset.range(ENDLESS), order.__getitem__, process, processes, drawn)

    def evaluation(self, limit=0, process=0, processes=1):
        """Every row once, as `evaluation_rows` says. `limit` > 0 stops after so many batches."""
        chosen = self.evaluation_rows()[:limit or None]
        return self._batches(grain.MapDataset.range(len(chosen)), chosen.__getitem__, process, processes)

    def evaluation_rows(self):
        """[(bucket, the numbers of its rows [B])] for every batch of the evaluation; -1: fills up.

        The order is mixed once and for all, so that the first few batches speak for all of them.
        """
        rng, batches = np.random.default_rng(0), []
        for k, (members, B) in enumerate(zip(self._members, _each(self.batch_size, self.buckets))):
            filled = np.pad(rng.permutation(members), (0, -len(members) % B), constant_values=-1)
            batches += [(k, rows) for rows in filled.reshape(-1, B)]
        return [batches[i] for i in rng.permutation(len(batches))]

    @functools.cached_property
    def _members(self):
        """The numbers of the rows of every bucket."""
        bucket = _buckets_of(self.lengths, self.buckets)
        return [np.flatnonzero(bucket == k) for k in range(len(self.buckets))]

    def _batches(self, steps, chosen, process, processes, drawn=None):
        drawn = drawn or (lambda i, step, b: self.row(i))

        def batch(step):
            k, rows = chosen(int(step))
            own = len(rows) // processes
            ours = list(enumerate(rows))[process * own:(process + 1) * own]
            made = [drawn(int(i), int(step), b) for b, i in ours if i >= 0]
            if made and max(map(length_of, made)) > self.buckets[k]:
                raise ValueError(f'a transform has made a row longer than {self.buckets[k]} positions; it may make it shorter')
            return padded(made or [empty(self.row(int(self._members[k][0])))], (self.filled or self.buckets)[k], own)

        return steps.map(batch)


class _Order:
    """Element `step`: (bucket, the numbers of the rows of that step's batch)."""

    def __init__(self, members, batch_size, seed):
        self.members, self.sizes, self.seed = members, _each(batch_size, members), seed
        # A batch reads two epochs of its bucket, and of a bucket of few rows more; they are drawn again, then.
        self._permuted = functools.lru_cache(4 * len(members))(self._permuted)
        self._mixed = functools.lru_cache(2)(self._mixed)

    def __getitem__(self, step):
        # S(E) batches in E epochs, with E R / M - K < S(E) <= E R / M for K buckets and R / M = sum_k n_k / B_k: the epoch
        # is in this range.
        K, M = len(self.members), math.lcm(*self.sizes)
        R = sum(len(members) * (M // B) for members, B in zip(self.members, self.sizes))
        epochs = range(step * M // R, (step + K) * M // R + 1)
        epoch = epochs[bisect.bisect_right(epochs, step, key=lambda epoch: sum(self._before(epoch))) - 1]
        k, number = self._mixed(epoch)[step - sum(self._before(epoch))]
        return k, self._rows(k, number)

    def _before(self, epoch):
        """How many batches every bucket gives before that epoch."""
        return [epoch * len(members) // B for members, B in zip(self.members, self.sizes)]

    def _mixed(self, epoch):
        """(bucket, number in the bucket's stream) of every batch of an epoch."""
        first, end = self._before(epoch), self._before(epoch + 1)
        batches = [(k, number) for k in range(len(self.members)) for number in range(first[k], end[k])]
        return [batches[i] for i in np.random.default_rng((self.seed, 0, epoch)).permutation(len(batches))]

    def _rows(self, k, number):
        n, first, end = len(self.members[k]), number * self.sizes[k], (number + 1) * self.sizes[k]
        epochs = range(first // n, (end - 1) // n + 1)
        return np.concatenate([self._permuted(k, epoch)[max(0, first - epoch * n):end - epoch * n] for epoch in epochs])

    def _permuted(self, k, epoch):
        return np.random.default_rng((self.seed, 1 + k, epoch)).permutation(self.members[k])


def _each(batch_size, buckets):
    """The rows of a batch of every bucket."""
    return batch_size if isinstance(batch_size, tuple) else (batch_size,) * len(buckets)


def _buckets_of(lengths, buckets):
    """The number of the shortest bucket that every row fits in."""
    if np.max(lengths, initial=0) > buckets[-1]:
        raise ValueError(f'a row has {np.max(lengths)} steps, and the longest bucket {buckets[-1]}')
    return np.searchsorted(buckets, lengths)


def padded(rows, length, count):
    """A batch of `count` rows of `length` steps: these rows, and as many empty ones as it takes. See `Ragged.filled`."""
    filled = [*rows, *[empty(rows[0])] * (count - len(rows))]
    return {**_stacked(filled, length), 'lengths': np.array([length_of(row) for row in filled], np.int32)}


def length_of(row):
    """The steps of a row."""
    inputs = row['inputs']
    return len(next(iter(inputs.values())) if isinstance(inputs, dict) else inputs)


def _stacked(values, length):
    """Dicts of rows as a dict of batches, time filled up with zeros to `length`, or to that of every name."""
    if isinstance(values[0], dict):
        return {name: _stacked([value[name] for value in values], length[name] if isinstance(length, dict) else length)
                for name in values[0]}
    if not np.ndim(values[0]):
        return np.stack(values)
    batch = np.zeros((len(values), length, *values[0].shape[1:]), values[0].dtype)
    for b, value in enumerate(values):
        batch[b, :len(value)] = value
    return batch


def empty(row):
    """A row like this one, of no steps."""
    if isinstance(row, dict):
        return {name: empty(value) for name, value in row.items()}
    return row[:0] if np.ndim(row) else np.zeros_like(row)
