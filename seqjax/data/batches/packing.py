"""Several sequences in one row, so that hardly a position is padding; segment ids keep them apart.

    inputs      a b c  d e  f g h  0
    segments    1 1 1  2 2  3 3 3  0

The models start anew where the segment changes, so that a sequence is read as if it had a row of its own. Segment 0 is
padding.
"""

import dataclasses
import functools

import numpy as np

from seqjax.data.batches.per_process import evaluated, per_process, shuffled
from seqjax.data.batches.ragged import empty


def pack(lengths, row_length):
    """Which sequences share a row: a list of tuples of their numbers. Sequences of no steps are in no row.

    Best fit, longest first (Johnson 1973): a sequence goes to the row in which it leaves the least room. Rows are kept
    by the room they have, and a bit mask says which amounts of room there are.
    """
    lengths, row_length = np.asarray(lengths), int(row_length)  # of numpy's integers no bit mask can be made
    if np.max(lengths, initial=0) > row_length:
        raise ValueError(f'a sequence has {np.max(lengths)} steps, and a row {row_length}; cut it first')
    rows, with_room, rooms = [], [[] for _ in range(row_length + 1)], 0
    for i in np.argsort(-lengths, kind='stable')[:np.count_nonzero(lengths)].tolist():
        length = int(lengths[i])
        enough = rooms >> length
        if enough:
            room = length + (enough & -enough).bit_length() - 1  # the lowest bit
            row = with_room[room].pop()
            if not with_room[room]:
                rooms ^= 1 << room
        else:
            room, row = row_length, []
            rows.append(row)
        row.append(i)
        with_room[room - length].append(row)
        rooms |= 1 << room - length
    return [tuple(row) for row in rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """Sequences, several in a row of `row_length` steps.

    sequence: i -> {'inputs': array or {name: array}, 'targets': array, 'weights': array}, all with time as their first
    axis. lengths: steps of every sequence. A batch has 'segments' [B, T] beside what the sequences have.
    """

    sequence: callable
    lengths: np.ndarray
    row_length: int
    batch_size: int

    def training(self, seed, process=0, processes=1):
        """An endless grain dataset: element `step` is this process's rows of the global batch of that step.

        Every epoch has every row once, in an order of its own.
        """
        return per_process(shuffled(len(self.rows), seed).map(self.row), self.batch_size, process, processes)

    def evaluation(self, limit=0, process=0, processes=1):
        """Every row once, the last batch filled up with empty ones. `limit` > 0 stops after so many batches."""
        return evaluated(self.row, len(self.rows), self.batch_size, limit, process, processes)

    @functools.cached_property
    def rows(self):
        """The numbers of the sequences of every row, mixed once and for all: the first few speak for all of them."""
        packed = pack(self.lengths, self.row_length)
        return [packed[i] for i in np.random.default_rng(0).permutation(len(packed))]

    def efficiency(self):
        """Real positions over computed ones."""
        return float(np.sum(self.lengths)) / (len(self.rows) * self.row_length)

    def row(self, i):
        """Row i, filled up with zeros to `row_length` steps; past the last row it is all zeros."""
        numbers = list(self.rows[i]) if i < len(self.rows) else []
        segments = np.repeat(np.arange(1, len(numbers) + 1, dtype=np.int32), self.lengths[numbers])
        parts = [self.sequence(n) for n in numbers] or [empty(self.sequence(0))]
        return {**_joined(parts, self.row_length), 'segments': filled(segments, self.row_length)}


@dataclasses.dataclass(frozen=True, eq=False)
class Documents:
    """The documents of a text as sequences: of n tokens there are n - 1 predictions, each of the token that comes next.

    ends: where in `tokens` every document ends. A document with more than `longest` predictions is cut into pieces that
    are sequences of their own: each starts from the token at which the one before ended, and sees nothing before it.
    """

    tokens: np.ndarray
    ends: np.ndarray
    longest: int

    @functools.cached_property
    def pieces(self):
        """(first token, predictions) of every sequence, [P, 2]."""
        starts = np.concatenate([[0], self.ends])[:-1].astype(int)
        predictions = np.maximum(self.ends - starts - 1, 0)
        counts = -(-predictions // self.longest)  # pieces of every document; of one token there is none
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... in its document
        left = np.repeat(predictions, counts) - number * self.longest
        return np.stack([np.repeat(starts, counts) + number * self.longest, np.minimum(left, self.longest)], axis=1)

    @property
    def lengths(self):
        return self.pieces[:, 1]

    @property
    def cut(self):
        """How many documents are in pieces."""
        return int(np.count_nonzero(np.diff(self.ends, prepend=0) - 1 > self.longest))

    def __getitem__(self, i):
        start, predictions = self.pieces[i]
        window = self.tokens[start:start + predictions + 1]
        return dict(inputs=window[:-1], targets=window[1:], weights=np.ones(predictions, np.float32))


def split_documents(text, separator):
    """The documents of a text, each with the separator that ends it: joined they are the text."""
    *ended, last = text.split(separator)
    return [document + separator for document in ended] + [last] * bool(last)


def _joined(parts, length):
    """Dicts of sequences as one dict, one after the other in time, filled up with zeros to `length`."""
    if isinstance(parts[0], dict):
        return {name: _joined([part[name] for part in parts], length) for name in parts[0]}
    return filled(np.concatenate(parts), length)


def filled(array, length):
    """The array with zeros after it, so many steps in all."""
    return np.concatenate([array, np.zeros((length - len(array), *array.shape[1:]), array.dtype)])
