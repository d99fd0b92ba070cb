"""Generated sets for long dependencies. Row i of a stream is a pure function of (seed, i): nothing is stored.

    adding   the sum of two marked numbers out of T (Hochreiter & Schmidhuber 1997, experiment 4; Le et al. 2015)
    copy     ten symbols, recalled after T blanks (Arjovsky et al. 2016, section 5.1)

Training draws from the stream of its seed. The held-out rows are those of another stream, the same for every seed, so
that runs with different seeds are measured on the same rows.
"""

import dataclasses
import hashlib

import grain
import numpy as np

from seqjax.data.batches.per_process import ENDLESS, evaluated, per_process
from seqjax.data.dataset import Dataset

TRAINING, HELD_OUT = 0, 1  # streams; no seed of one gives a row of the other
RECALLED, LETTERS = 10, 8  # of the copy task
BLANK, DELIMITER = LETTERS, LETTERS + 1


def adding_row(rng, T):
    """inputs [T, 2] -> the sum of the two values that are marked.

        x_t = (value ~ U[0, 1], marker), the marker 1 at one place of each half and 0 elsewhere

    Always answering 1 has a mean squared error of 2 Var(U) = 1/6.
    """
    values = rng.random(T, np.float32)
    marked = [rng.integers(T // 2), rng.integers(T // 2, T)]
    markers = np.zeros(T, np.float32)
    markers[marked] = 1
    return dict(inputs=np.stack([values, markers], axis=-1), targets=values[marked].sum(), weights=np.float32(1))


def copy_row(rng, T):
    """inputs [T + 20] -> targets [T + 20]: ten letters, T blanks with a delimiter as the last, and room to recall.

        inputs    l_1 ... l_10  _ x (T - 1)  :  _ x 10
        targets   _ x (T + 10)                  l_1 ... l_10

    Only the ten recalled letters are counted. Without memory their cross-entropy is log 8 each; the paper, which counts
    the blanks too, states the same as 10 log(8) / (T + 20) a step.
    """
    letters = rng.integers(LETTERS, size=RECALLED, dtype=np.int32)
    inputs, targets = np.full((2, T + 2 * RECALLED), BLANK, np.int32)
    inputs[:RECALLED], inputs[T + RECALLED - 1], targets[-RECALLED:] = letters, DELIMITER, letters
    return dict(inputs=inputs, targets=targets, weights=(np.arange(len(inputs)) >= T + RECALLED).astype(np.float32))


@dataclasses.dataclass(frozen=True)
class Generator:
    """How one kind of row is made, what it has to be learned (see `Task.takes`), and how many tokens it is made of (None: numbers)."""

    row: callable
    kind: str
    vocabulary: int | None


GENERATORS = {
    'adding': Generator(adding_row, 'number', None),
    'copy': Generator(copy_row, 'text', LETTERS + 2),
}


@dataclasses.dataclass(frozen=True)
class Synthetic(Dataset):
    """The set that `source` names, with T = `length`. Interface: `data.Dataset`."""

    source: str
    length: int
    held_out_rows: int

    codec = tokenizer = None
    splits = ('train', 'validation')

    @property
    def steps(self):
        """Steps of a row."""
        return len(self.row(HELD_OUT, 0, 0)['inputs'])

    def row(self, stream, seed, i):
        return GENERATORS[self.source].row(np.random.default_rng((stream, seed, i)), self.length)

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        """An endless grain dataset: element `step` is this process's rows of the global batch of that step."""
        rows = grain.MapDataset.range(ENDLESS).map(lambda i: self.row(TRAINING, seed, int(i)))
        return per_process(rows, batch_size, process, processes)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        """The held-out rows, in order, the last batch filled up with rows of weight 0. `limit` > 0 stops after so many."""
        del split  # there is one

        def row(i):
            made = self.row(HELD_OUT, 0, i)
            return made if i < self.held_out_rows else {**made, 'weights': np.zeros_like(made['weights'])}

        return evaluated(row, self.held_out_rows, batch_size, limit, process, processes)

    def for_model(self):
        return dict(vocabulary=GENERATORS[self.source].vocabulary, context_length=self.steps, outputs=1)

    def sample(self):
        """A batch of one row."""
        return {name: np.asarray(value)[None] for name, value in self.row(HELD_OUT, 0, 0).items()}

    def facts(self):
        """What a run writes down to know the set again; the hash is that of the first held-out rows."""
        digest = hashlib.sha256()
        for i in range(16):
            for _, value in sorted(self.row(HELD_OUT, 0, i).items()):
                digest.update(np.asarray(value).tobytes())
        return dict(source=self.source, sha256=digest.hexdigest(), length=self.length, held_out_rows=self.held_out_rows)

    def __str__(self):
        return f'rows of {self.steps} steps generated without end, {self.held_out_rows:,} held out'
