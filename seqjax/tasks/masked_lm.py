"""Masked language modelling: find the tokens that are hidden and, of two texts, whether the second follows the first."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from seqjax import ops
from seqjax.tasks.options import Smoothing
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task

LIKELIEST = 5  # tokens that `predict` names
HIDDEN = '<mask>'  # a hidden token in a line of --mode=predict


def masked_count(steps, share):
    """M: the masked places of a full row of one text, whose first and last positions are [CLS] and [SEP]."""
    return max(1, round(share * (steps - 2)))


@dataclasses.dataclass(frozen=True)
class MaskedLM(Task):
    """-sum_m log P(target_m | row) - M sum_b log P(next_b | row), over the places whose weight is 1 and the rows that are any.

    Devlin et al. 2019, section 3.1. The weight is the number of counted places. One answer of a row counts as much as M
    tokens, M the places that a batch has room for in a row: where all are used, loss / weight is the paper's, the mean over
    tokens plus the mean over rows, and for any others the ratio is the same, so that batches can be added.

    model: a linen module, inputs [B, T], lengths [B], places [B, M] -> dict(tokens=logits [B, M, V], next=logits [B, 2]).
    label_smoothing: of tokens, see `ops.cross_entropy`; in training only.
    batch: inputs [B, T], lengths [B], places [B, M], targets [B, M], weights [B, M], and next [B] where rows have two texts.
    """

    label_smoothing: float = 0.0

    data: ClassVar[str] = 'masked'
    output_kind: ClassVar[str] = 'masked_token'
    unit: ClassVar[str] = 'nats per masked token'
    answer: ClassVar[str] = 'text'
    options: ClassVar[type] = Smoothing

    @classmethod
    def head(cls, classes):
        return dict(outputs=0, per_step=False)

    @classmethod
    def batch_spec(cls, options, B, T):
        spec = super().batch_spec(options, B, T)
        spec['places'] = spec['targets']
        return spec | (dict(next=spec['lengths']) if options['next_sentence'] else {})

    @classmethod
    def target_spec(cls, options, B, T):
        return (B, masked_count(T, options['mask_probability'])), jnp.int32

    def __call__(self, params, batch, key=None):
        logits, targets, weights = self.logits(params, batch, key), batch['targets'], batch['weights']
        loss = ops.cross_entropy(logits['tokens'], targets, 0.0 if key is None else self.label_smoothing)
        loss = (loss * weights).sum()
        right = jnp.where(jnp.argmax(logits['tokens'], axis=-1) == targets, weights, 0)
        metrics = dict(accuracy=right.sum())
        if 'next' in batch:
            rows = (batch['lengths'] > 0).astype(jnp.float32)  # [B]; those that fill up a batch are none
            next_loss = (ops.cross_entropy(logits['next'], batch['next']) * rows).sum()
            if key is None:
                next_right = jnp.where(jnp.argmax(logits['next'], axis=-1) == batch['next'], rows, 0)
                metrics |= dict(token_loss=loss, next_loss=next_loss, next_accuracy=next_right.sum(), rows=rows.sum())
            loss += targets.shape[1] * next_loss
        return Sums(loss=loss, weight=weights.sum(), metrics=metrics)

    def logits(self, params, batch, key=None):
        """dict(tokens=[B, M, V], next=[B, 2]); with a key the model is in training."""
        return self.model.apply({'params': params}, batch['inputs'], batch['lengths'], places=batch['places'],
                                train=key is not None, rngs=None if key is None else {'dropout': key})

    def predict(self, params, batch):
        """{'tokens': [B, M, 5], 'probabilities': [B, M, 5]}: the likeliest at `places`, the best first."""
        probabilities = jax.nn.softmax(self.logits(params, batch)['tokens'].astype(jnp.float32))
        best, tokens = jax.lax.top_k(probabilities, min(LIKELIEST, probabilities.shape[-1]))
        return dict(tokens=tokens, probabilities=best)

    def exported(self, T, codec, options):
        forward, inputs = super().exported(T, codec, options)
        named = ('logits', 'next') if options['next_sentence'] else ('logits',)

        def chosen(params, **inputs):
            outputs = forward(params, **inputs)
            return {name: outputs[name] for name in named}

        return chosen, inputs

    def answers(self, params, batch):
        logits = self.logits(params, {**batch, 'places': None})
        return dict(logits=logits['tokens'], next=logits['next'])

    def parse(self, line, codec):
        return (codec.around(HIDDEN, line), None) if HIDDEN in line else (None, f'no {HIDDEN} in it')

    def row(self, sequence, codec):
        row = codec.fitted(dict(inputs=codec.with_masks(sequence)))
        return {**row, 'places': np.flatnonzero(row['inputs'] == codec.marks.mask).astype(np.int32)}

    def render(self, line, sequence, row, outputs, codec):
        """Of the pieces of a line between its masks; those that were cut off stay as they are."""
        masks = len(row['places'])
        tokens = [[[codec.name(token), float(p)] for token, p in zip(best, of_best)]  # pairs: byte pairs may share a name
                  for best, of_best in zip(outputs['tokens'][:masks], outputs['probabilities'])]
        likeliest = [best[0][0] for best in tokens] + [HIDDEN] * (len(sequence) - 1 - len(tokens))
        text = codec.tokenizer.glue.join(part for pair in zip(sequence, [*likeliest, '']) for part in pair if part)
        return dict(input=line, text=text, tokens=tokens)

    def numbers(self, sums):
        """Means over tokens, and of the next sentence over rows; perplexity is that of the tokens alone."""
        means = {name: float(value) for name, value in sums.means().items()}
        rows = means.pop('rows', None)  # for every token
        means |= {name: means[name] / rows for name in ('next_loss', 'next_accuracy') if rows}
        return {**means, 'perplexity': math.exp(min(means.get('token_loss', means['loss']), 700))}
