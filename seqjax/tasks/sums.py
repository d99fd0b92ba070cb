"""What a task returns: sums, never means, so that micro-batches, devices and batches can be added in any order."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Sums(NamedTuple):
    """loss: sum over predictions; weight: how many predictions; metrics: more sums over the same predictions.

    A metric that is an array (a confusion matrix) is a table of counts and never divided. rows: what cannot be added up,
    a value for every row of the batch [B]; only in evaluation, where those of all batches are put one after another.
    """

    loss: jax.Array
    weight: jax.Array
    metrics: dict[str, jax.Array]
    rows: dict[str, jax.Array] = {}

    def means(self):
        """The one division: {'loss': ..., metric: ...}."""
        totals = dict(loss=self.loss, **self.metrics)
        return {name: total / self.weight for name, total in totals.items() if jnp.ndim(total) == 0}

    def over_devices(self, axis_name):
        """The same on every device of a mapped axis: added, the rows in the order of the devices."""
        loss, weight, metrics = jax.lax.psum((self.loss, self.weight, self.metrics), axis_name)
        return Sums(loss, weight, metrics, jax.lax.all_gather(self.rows, axis_name, tiled=True))
