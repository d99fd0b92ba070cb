"""SimCLR: two augmented views of an image find each other among those of all other images."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.tasks.options import SimCLROptions
from seqjax.tasks.self_supervised import SelfSupervised
from seqjax.tasks.sums import Sums
from seqjax.tasks.views import merged, parted


@dataclasses.dataclass(frozen=True)
class SimCLR(SelfSupervised):
    """NT-Xent between g(f(view 1)) and g(f(view 2)), against all views of the global batch (Chen et al. 2020, algorithm 1).

    f is the model, whose features are what is kept; g a projection head that is thrown away. The loss of guessing is
    ln(2B - 1), B the rows of the global batch: `guessing` in every line of the log.

    model: a linen module with `features`: images [B, H, W, C] -> [B, D]. temperature: tau. projection_hidden, projection_width:
    of the head, M and E. batch: views [B, 2, H, W, C] of `prepare`, weights [B]; in evaluation also inputs and targets.
    """

    temperature: float = 0.5
    projection_hidden: int = 512
    projection_width: int = 128

    options: ClassVar[type] = SimCLROptions
    unit: ClassVar[str] = 'nats per view'

    @property
    def head_module(self):
        return nn.ProjectionHead(self.projection_hidden, self.projection_width)

    def represent(self, params: Any, batch: dict, key: jax.Array | None = None) -> dict[str, jax.Array]:
        """dict(z=[B, 2, E]) of length 1; in evaluation also features [B, D] of the images as they are."""
        z = self.project(params, self.features(params, merged(batch['views']), key))
        found = dict(z=parted(ops.unit_length(z), 2))
        return found if key is not None else {**found, 'features': self.features(params, batch['inputs'])}

    def pair_loss(self, params: Any, outputs: dict, batch: dict) -> Sums:
        there = batch['weights'] > 0
        z, count = outputs['z'], there.sum().astype(jnp.float32)
        losses = ops.nt_xent(z[:, 0], z[:, 1], self.temperature, there)
        metrics = dict(guessing=count * jnp.log(jnp.maximum(2 * count - 1, 1)), embedding_std=count * spread(z[:, 0], there))
        return Sums(loss=losses.sum(), weight=count, metrics=metrics, rows=self.kept_rows(outputs, batch))


def spread(z: jax.Array, there: jax.Array) -> jax.Array:
    """sqrt(1 - |mean of z|^2) over the rows that are there, z [B, E] of length 1: 0 where all are the same. `metrics.feature_std`."""
    mean = jnp.where(there[:, None], z, 0).sum(axis=0) / jnp.maximum(there.sum(), 1).astype(z.dtype)
    return jnp.sqrt(jnp.maximum(1 - (mean ** 2).sum(), 0))
