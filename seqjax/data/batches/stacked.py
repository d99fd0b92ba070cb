"""Batches of rows that all have one shape, as images have: nothing is padded, and nothing is known of a row before it is made."""

from collections.abc import Callable
import dataclasses
import functools

import grain
import jax
import numpy as np

from seqjax.data.batches.per_process import evaluated, per_process, shuffled


@dataclasses.dataclass(frozen=True, eq=False)
class Stacked:
    """Rows of one shape, batch by batch.

    Args:
        row: i -> {'inputs': ..., 'targets': ..., 'weights': ...}.
        drawn: (i, rng) -> the same, as it is trained on; rng depends on (seed, step, place in the batch) alone.
        count: rows.
        batch_size: rows of a batch.
    """

    row: Callable[[int], dict]
    drawn: Callable[[int, np.random.Generator], dict]
    count: int
    batch_size: int

    def training(self, seed: int, process: int = 0, processes: int = 1) -> grain.MapDataset:
        """An endless grain dataset: element `step` is this process's rows of the global batch of that step."""
        rows = shuffled(self.count, seed).random_map(lambda i, rng: self.drawn(int(i), rng))
        return per_process(rows, self.batch_size, process, processes)

    def evaluation(self, limit: int = 0, process: int = 0, processes: int = 1) -> grain.MapDataset:
        """Every row once, the last batch filled up with rows of zeros; the order is mixed once and for all."""
        order = np.random.default_rng(0).permutation(self.count)

        def row(i):
            return self.row(int(order[i])) if i < self.count else self._filler

        return evaluated(row, self.count, self.batch_size, limit, process, processes)

    @functools.cached_property
    def _filler(self):
        return jax.tree.map(np.zeros_like, self.row(0))
