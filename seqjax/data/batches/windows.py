"""Batches of windows over one long row of tokens. The batch of a step is a pure function of (seed, step).

Training sees every window of an epoch once, in an order drawn anew each epoch, each shifted by a random offset so that
over the epochs a token stands at every place of a window. Process p of P loads only its own rows of each batch, and the
rows that all of them load together do not depend on P.
"""

import dataclasses
import os

import grain
import numpy as np

from seqjax.data.batches.per_process import evaluated, per_process, shuffled
from seqjax.errors import FieldError

THREADS = min(4, os.cpu_count() or 1)


@dataclasses.dataclass(frozen=True)
class Windows:
    """Window i of a row of tokens: as many inputs as `length`, and for each the token after it."""

    tokens: np.ndarray
    length: int

    def __len__(self):
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, i):
        return self.at(int(i) * self.length)

    def at(self, start):
        window = self.tokens[start:start + self.length + 1]
        return dict(inputs=window[:-1], targets=window[1:], weights=np.ones(self.length, np.float32))

    def shifted(self, i, rng):
        """Window i moved right by up to a window, as far as the tokens reach."""
        start = i * self.length + rng.integers(self.length)
        return self.at(min(start, len(self.tokens) - 1 - self.length))


def training_batches(tokens, *, batch_size, sequence_length, seed, process=0, processes=1):
    """An endless grain dataset: element `step` is this process's rows of the global batch of that step."""
    windows = Windows(tokens, sequence_length)
    check_length(windows, 'training')
    return per_process(shuffled(len(windows), seed).random_map(windows.shifted), batch_size, process, processes)


def evaluation_batches(tokens, *, batch_size, sequence_length, limit=0, process=0, processes=1):
    """Every held-out token once, in order, the last rows filled up with weight 0. `limit` > 0 stops after so many."""
    windows = Windows(tokens, sequence_length)
    check_length(windows, 'held-out')
    predictions, whole = len(tokens) - 1, len(windows)

    def row(i):
        if i < whole:
            return windows[i]
        # The last window ends with the text, and what it repeats of the one before has weight 0; so has all of a filler row.
        counted = predictions - whole * sequence_length if i == whole else 0
        window = windows.at(predictions - sequence_length)
        return {**window, 'weights': (np.arange(sequence_length) >= sequence_length - counted).astype(np.float32)}

    return evaluated(row, -(-predictions // sequence_length), batch_size, limit, process, processes)


def prefetched(dataset, first_step=0):
    """Iterates from `first_step` on, with the next few batches made in threads while the device computes; in their order."""
    return iter(dataset[first_step:].to_iter_dataset(grain.ReadOptions(num_threads=THREADS, prefetch_buffer_size=8)))


def check_length(windows, which):
    if not len(windows):
        raise FieldError('data.sequence_length', windows.length,
                         f'the {which} text has only {len(windows.tokens)} tokens; use a longer text or a shorter sequence')
