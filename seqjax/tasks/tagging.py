"""Tagging: a label for every step."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.metrics import entities
from seqjax.tasks.classification import confusion
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class Tagging(Task):
    """-sum_t log P(label_t | sequence), over the steps whose weight is 1; or, where the model ends in a conditional random
    field, -log P(all labels of a row | sequence), which is counted as its steps are.

    model: a linen module, inputs [B, T] or [B, T, D] and lengths [B] -> logits [B, T, C], or where it has a field `crf` that
    says so (scores [B, T, C], transitions). classes: their names. batch: inputs, lengths [B], targets [B, T], weights [B, T],
    and segments [B, T] where rows hold several sequences.
    """

    classes: tuple[str, ...] = ()

    data: ClassVar[str] = 'labelled'
    target: ClassVar[str] = 'labels'
    baseline: ClassVar[str] = 'labels'
    output_kind: ClassVar[str] = 'position'
    unit: ClassVar[str] = 'nats per step'
    per_step: ClassVar[bool] = True
    answer: ClassVar[str] = 'labels'

    @property
    def has_crf(self):
        return getattr(self.model, 'crf', False)

    def __call__(self, params, batch, key=None):
        outputs, targets, weights = self.outputs(params, batch, key), batch['targets'], batch['weights']
        if self.has_crf:
            loss = -ops.crf_log_likelihood(*outputs, targets, batch['lengths'], batch.get('segments')).sum()
        else:
            loss = (ops.cross_entropy(outputs, targets) * weights).sum()
        metrics = {}
        if key is None or not self.has_crf:  # the best path costs another pass over the steps; training does without
            answers = self._answers(outputs, batch)
            metrics['accuracy'] = jnp.where(answers == targets, weights, 0).sum()
        if key is None:
            metrics['confusion'] = confusion(targets, answers, weights, len(self.classes))
            if scheme := entities.scheme_of(self.classes):
                metrics['entities'] = entities.count_entities(scheme, targets, answers, weights, batch.get('segments'))
        return Sums(loss=loss, weight=weights.sum(), metrics=metrics)

    def predict(self, params, batch):
        """{'labels': [B, T], 'probabilities': [B, T, C]}; with a random field the best path, and the marginals."""
        outputs = self.outputs(params, batch)
        probabilities = (ops.crf_marginals(*outputs, batch['lengths'], batch.get('segments')) if self.has_crf else
                         jax.nn.softmax(outputs))
        return dict(labels=self._answers(outputs, batch), probabilities=probabilities)

    def answers(self, params, batch):
        if not self.has_crf:
            return super().answers(params, batch)
        # Scores are no answer where labels are judged together; its loops go from the second step on: there must be one.
        longer = jax.tree.map(lambda x: jnp.pad(x, [(0, 0), (0, 1)] + [(0, 0)] * (x.ndim - 2)), batch['inputs'])
        return {name: y[:, :-1] for name, y in self.predict(params, {**batch, 'inputs': longer}).items()}

    def render(self, line, sequence, row, outputs, codec):
        steps = codec.places(sequence)
        length = jax.tree.leaves(row['inputs'])[0].shape[0]
        steps = steps[steps < length - codec.marked]  # what was cut off has no label
        labels = outputs['labels'][steps]
        tokens = sequence.tolist() if hasattr(sequence, 'tolist') else list(sequence)
        return dict(input=line, tokens=tokens[:len(steps)], labels=[codec.classes[label] for label in labels],
                    probabilities=[float(p[label]) for p, label in zip(outputs['probabilities'][steps], labels)])

    def _answers(self, outputs, batch):
        if self.has_crf:
            return ops.crf_decode(*outputs, batch['lengths'], batch.get('segments'))
        return jnp.argmax(outputs, axis=-1)

    def found(self, sums):
        scheme = entities.scheme_of(self.classes)
        return {**super().found(sums), 'tags': self.classes, **(dict(entity_types=scheme.types) if scheme else {})}
