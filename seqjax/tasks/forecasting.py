"""Forecasting: the next values of a series of numbers, at every position."""

import dataclasses
import math
from typing import ClassVar

import jax.numpy as jnp

from seqjax.errors import FieldError
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Forecasting(Task):
    """sum_t |x_{t+1} - f(x_1 ... x_t)|^2 / D, over the steps of weight 1, of values that are normalised by the training part.

    A loss of 1 is that of always predicting the mean. Beside it stands `persistence`, that of predicting that nothing changes.

    model: a causal linen module, inputs [B, T, D] -> outputs [B, T, D]. deviation: of every feature, the unit of its errors.
    batch: inputs [B, T, D], targets [B, T, D], which are the inputs one step later, and weights [B, T].
    """

    deviation: tuple[float, ...] = ()

    data: ClassVar[str] = 'series'
    output_kind: ClassVar[str] = 'position'
    unit: ClassVar[str] = 'mean squared error'

    def __post_init__(self):
        if getattr(self.model, 'bidirectional', False):
            raise FieldError('model.bidirectional', True, 'reads the values that are to be predicted; set it to false')

    @classmethod
    def target_spec(cls, options, B, T):
        return (B, T), jnp.float32

    def __call__(self, params, batch, key=None):
        targets, weights = batch['targets'], batch['weights']
        squares = lambda predictions: ((predictions.astype(jnp.float32) - targets) ** 2).mean(axis=-1)         # [B, T]
        loss = squares(self.outputs(params, batch, key))
        metrics = dict(persistence=(squares(batch['inputs']) * weights).sum())
        return Sums(loss=(loss * weights).sum(), weight=weights.sum(), metrics=metrics)

    def predict(self, params, batch):
        """{'predictions': [B, T, D]}, normalised values."""
        return dict(predictions=self.outputs(params, batch))

    def answers(self, params, batch):
        return self.predict(params, batch)

    def numbers(self, sums):
        means = sums.means()
        unit = dict(root_mean_squared_error=self.deviation[0] * math.sqrt(means['loss'])) if len(self.deviation) == 1 else {}
        return {**means, **unit}
