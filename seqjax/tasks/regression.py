"""Regression: one number for every sequence."""

import dataclasses
import math
from typing import ClassVar

import jax.numpy as jnp

from seqjax.tasks.images import OfImages
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Regression(OfImages, Task):
    """sum_b ((prediction_b - target_b) / scale)^2 with prediction = offset + scale * output, over the rows of weight 1.

    model: a linen module, inputs [B, T] or [B, T, D] and lengths [B] -> outputs [B, 1]. offset, scale: mean and standard
    deviation of the training targets, so that a loss of 1 is that of always answering their mean; 0 and 1: the targets as
    they are. batch: inputs, lengths [B] where rows are ragged, targets [B] and weights [B].
    """

    offset: float = 0.0
    scale: float = 1.0

    data: ClassVar[str] = 'labelled'
    target: ClassVar[str] = 'number'
    baseline: ClassVar[str] = 'number'
    output_kind: ClassVar[str] = 'row'
    unit: ClassVar[str] = 'mean squared error'
    answer: ClassVar[str] = 'prediction'

    @classmethod
    def head(cls, classes):
        return dict(outputs=1, per_step=False)

    def __call__(self, params, batch, key=None):
        predictions, targets, weights = self.predictions(params, batch, key), batch['targets'], batch['weights']
        errors = (predictions - targets) / self.scale  # [B]
        metrics = dict(absolute_error=(abs(errors) * weights).sum() * self.scale)
        rows = dict(predictions=predictions, targets=targets, weights=weights) if key is None else {}
        return Sums(loss=(errors ** 2 * weights).sum(), weight=weights.sum(), metrics=metrics, rows=rows)

    def predictions(self, params, batch, key=None):
        """[B], in the unit of the targets."""
        return self.offset + self.scale * self.outputs(params, batch, key)[:, 0].astype(jnp.float32)

    def predict(self, params, batch):
        """{'predictions': [B]}"""
        return dict(predictions=self.predictions(params, batch))

    def answers(self, params, batch):
        return self.predict(params, batch)

    def render(self, line, sequence, row, outputs, codec):
        return dict(input=line, prediction=float(outputs['predictions']))

    def numbers(self, sums):
        means = sums.means()
        return {**means, 'root_mean_squared_error': self.scale * math.sqrt(means['loss'])}
