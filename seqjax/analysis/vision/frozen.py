"""Features of a network that nobody trains any more, and proof of that.

Shapes: N rows, D width of the features.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from seqjax.params.digest import digest


class FrozenFeatures:
    """Rows of images -> their features, with parameters that are read and never written.

        frozen = FrozenFeatures(task, params)
        features, targets = frozen(dataset.rows['train'])
        frozen.digest()        # the same before and after a probe, or something has moved

    Args:
        task: with `features` and `prepare`, see `tasks.Task`.
        params: its parameters; the running statistics of its model count among the leaves.
        batch_size: rows that are computed at a time.
        seen: told of every batch how many rows it has.
        method: of the model, images -> [B, D].
    """

    def __init__(self, task: Any, params: Any, batch_size: int = 256, seen: Callable[[int], None] = lambda count: None,
                 method: str = 'features') -> None:
        self._params, self._statistics = params, getattr(task.model, 'batch_stats', {})
        self._batch_size, self._seen = batch_size, seen
        self._compute = jax.jit(lambda params, batch: task.model.apply({'params': params}, _images(task, batch), method=method))

    def __call__(self, rows: Sequence[dict]) -> tuple[np.ndarray, np.ndarray]:
        """(features [N, D] in float32, targets [N])."""
        found, targets = [], []
        for begin in range(0, len(rows), self._batch_size):
            part = [rows[i] for i in range(begin, min(begin + self._batch_size, len(rows)))]
            filled = part + part[:1] * (self._batch_size - len(part))  # one shape, one program
            batch = jax.tree.map(lambda *leaves: np.stack(leaves), *filled)
            found.append(np.asarray(self._compute(self._params, batch), np.float32)[:len(part)])
            targets += [row['targets'] for row in part]
            self._seen(len(part))
        return np.concatenate(found), np.asarray(targets)

    def digest(self) -> str:
        """SHA-256 of all leaves, of parameters and running statistics."""
        return digest(dict(params=self._params, batch_stats=self._statistics))


def _images(task, batch):
    """As the model reads them; what a task makes of a batch beside them is not computed."""
    return task.prepare(batch)['inputs']


def pixels(rows: Sequence[dict]) -> tuple[np.ndarray, np.ndarray]:
    """The rows themselves as features, (numbers from 0 to 1 [N, H W C], targets [N]): what a network has to beat."""
    images = np.stack([rows[i]['inputs'] for i in range(len(rows))])
    flat = images.reshape(len(images), -1).astype(np.float32)
    return flat / 255 if images.dtype == np.uint8 else flat, np.asarray([rows[i]['targets'] for i in range(len(rows))])
