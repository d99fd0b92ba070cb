"""Regression: one number for every row."""

import dataclasses
import math
from typing import ClassVar

import jax.numpy as jnp

from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Regression(Task):
    """sum_b (prediction_b - target_b)^2, over the rows whose weight is 1.

    model: a linen module, inputs [B, T, D] -> predictions [B].
    batch: inputs [B, T, D], targets [B] and weights [B].
    """

    unit: ClassVar[str] = 'mean squared error'

    def __call__(self, params, batch, key=None):
        """Sums over the batch. With a key the model is in training: dropout draws from it."""
        predictions = self.model.apply({'params': params}, batch['inputs'], train=key is not None,
                                       rngs=None if key is None else {'dropout': key})  # [B]
        errors, weights = predictions.astype(jnp.float32) - batch['targets'], batch['weights']
        return Sums(loss=(errors ** 2 * weights).sum(), weight=weights.sum(),
                    metrics=dict(absolute_error=(abs(errors) * weights).sum()))

    @staticmethod
    def summary(means):
        """What a reader wants to see of the means of an evaluation."""
        return {**means, 'root_mean_squared_error': math.sqrt(means['loss'])}
