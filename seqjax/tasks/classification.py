"""Classification: one class for every sequence."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.metrics import is_wanted
from seqjax.tasks.images import OfImages
from seqjax.tasks.options import Smoothing
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Classification(OfImages, Task):
    """-sum_b log P(class_b | sequence_b), over the rows whose weight is 1.

    model: a linen module, inputs [B, T] or [B, T, D] and lengths [B] -> logits [B, C]. classes: their names.
    label_smoothing: see `ops.cross_entropy`; in training only.
    batch: inputs, lengths [B], targets [B] and weights [B]; targets may be shares of classes [B, C], as mixup makes them.
    """

    classes: tuple[str, ...] = ()
    label_smoothing: float = 0.0

    data: ClassVar[str] = 'labelled'
    target: ClassVar[str] = 'class'
    baseline: ClassVar[str] = 'class'
    output_kind: ClassVar[str] = 'row'
    unit: ClassVar[str] = 'nats per sequence'
    answer: ClassVar[str] = 'label'
    options: ClassVar[type] = Smoothing

    def __call__(self, params, batch, key=None):
        logits, targets, weights = self.outputs(params, batch, key), batch['targets'], batch['weights']
        answers, likeliest = jnp.argmax(logits, axis=-1), targets if targets.ndim == 1 else jnp.argmax(targets, axis=-1)
        metrics = dict(accuracy=jnp.where(answers == likeliest, weights, 0).sum())
        if key is None:
            metrics['confusion'] = confusion(targets, answers, weights, logits.shape[-1])
        loss = ops.cross_entropy(logits, targets, 0.0 if key is None else self.label_smoothing)
        rows = {}
        if key is None and is_wanted('probabilities'):
            rows = dict(probabilities=jax.nn.softmax(logits), targets=targets, weights=weights)
        return Sums(loss=(loss * weights).sum(), weight=weights.sum(), metrics=metrics, rows=rows)

    def predict(self, params, batch):
        """{'probabilities': [B, C]}"""
        return dict(probabilities=jax.nn.softmax(self.outputs(params, batch)))

    def render(self, line, sequence, row, outputs, codec):
        probabilities = {name: float(p) for name, p in zip(codec.classes, outputs['probabilities'])}
        return dict(input=line, label=max(probabilities, key=probabilities.get), probabilities=probabilities)


def confusion(targets, answers, weights, classes):
    """[C, C] of counts: row: the truth, column: the answer, over whatever has a weight. All arrays have the same shape."""
    cells = jnp.where(weights > 0, targets * classes + answers, classes * classes)  # what is not counted goes to one more
    return jnp.bincount(cells.ravel(), length=classes * classes + 1)[:-1].reshape(classes, classes)
