"""What a task returns: sums, never means, so that micro-batches, devices and batches can be added in any order."""

from typing import NamedTuple

import jax


class Sums(NamedTuple):
    """loss: sum over predictions; weight: how many predictions; metrics: more sums over the same predictions."""

    loss: jax.Array
    weight: jax.Array
    metrics: dict[str, jax.Array]

    def means(self):
        """The one division: {'loss': ..., metric: ...}."""
        return {name: total / self.weight for name, total in dict(loss=self.loss, **self.metrics).items()}
