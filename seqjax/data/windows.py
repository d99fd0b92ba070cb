"""Batches of windows over one long row of tokens. The batch of a step is a pure function of (seed, step).

Training sees every window of an epoch once, in an order drawn anew each epoch, each shifted by a random offset so that
over the epochs a token stands at every place of a window. Process p of P loads only its own rows of each batch, and the
rows that all of them load together do not depend on P.
"""

import dataclasses

import grain
import numpy as np

from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Windows:
    """Window i of a row of tokens, as grain's random-access sources want it."""

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
    _enough(windows, 'training')
    epochs = 2 ** 62 // len(windows)  # as good as endless; grain's own endless overflows in batches of one row
    rows = grain.MapDataset.range(len(windows)).seed(seed).shuffle().repeat(epochs).random_map(windows.shifted)
    return rows.batch(batch_size // processes)[process::processes]


def evaluation_batches(tokens, *, batch_size, sequence_length, limit=0, process=0, processes=1):
    """Every held-out token once, in order, the last rows filled up with weight 0. `limit` > 0 stops after so many."""
    windows = Windows(tokens, sequence_length)
    _enough(windows, 'held-out')
    used = len(windows) * sequence_length
    rows = [windows[i] for i in range(len(windows))]
    if used < len(tokens) - 1:  # the last, shorter window: its tail repeats with weight 0
        tail, missing = windows.at(len(tokens) - 1 - sequence_length), used + sequence_length - (len(tokens) - 1)
        rows.append({**tail, 'weights': np.where(np.arange(sequence_length) < missing, 0, 1).astype(np.float32)})
    filler = {key: np.zeros_like(value) for key, value in rows[0].items()}
    rows += [filler] * (-len(rows) % batch_size)
    batches = grain.MapDataset.source(rows).batch(batch_size // processes)[process::processes]
    return batches[:limit] if limit else batches


def prefetched(dataset, first_step=0):
    """Iterates from `first_step` on, with the next few batches made in a thread while the device computes."""
    return iter(dataset[first_step:].to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=8)))


def _enough(windows, which):
    if not len(windows):
        raise FieldError('data.sequence_length', windows.length,
                         f'the {which} text has only {len(windows.tokens)} tokens; use a longer text or a shorter sequence')
