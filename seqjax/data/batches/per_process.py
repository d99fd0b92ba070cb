"""Rows of a global batch, and those of them that one process loads."""

from collections.abc import Callable
from typing import Any

import grain

ENDLESS = 2 ** 62  # rows: grain's own endless overflows in batches of one row


def per_process(rows: grain.MapDataset, batch_size: int, process: int = 0, processes: int = 1) -> grain.MapDataset:
    """Element `step`: this process's rows of the global batch of that step. All processes together load the same rows,
    however many they are.
    """
    return rows.batch(batch_size // processes)[process::processes]


def shuffled(count: int, seed: int) -> grain.MapDataset:
    """Numbers below `count` in endless epochs, each in an order of its own."""
    return grain.MapDataset.range(count).seed(seed).shuffle().repeat(ENDLESS // count)


def evaluated(row: Callable[[int], Any], count: int, batch_size: int, limit: int = 0, process: int = 0,
              processes: int = 1) -> grain.MapDataset:
    """Rows 0 to count - 1 in order, and as many more as fill up the last batch, for which `row` gives weight 0.

    Args:
        limit: stop after so many batches; 0: after the last one.
    """
    rows = grain.MapDataset.range(count + -count % batch_size).map(lambda i: row(int(i)))
    batches = per_process(rows, batch_size, process, processes)
    return batches[:limit] if limit else batches
