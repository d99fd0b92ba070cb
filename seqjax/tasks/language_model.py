"""Language modelling: predict every next token."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class LanguageModel(Task):
    """-sum_t log P(target_t | tokens up to t), over the targets whose weight is 1.

    model: a linen module, tokens [B, T] -> logits [B, T, V].
    batch: inputs [B, T], targets [B, T] and weights [B, T]; for `carried` also starts [B].

    In training, what the model sows in the collection 'penalties' (sums over its steps) is added to the loss.
    """

    unit: ClassVar[str] = 'nats per token'

    def initial_carry(self, rows):
        """What a recurrent model remembers of `rows` rows before the first batch."""
        return self.model.initial_state(rows, 0)

    def __call__(self, params, batch, key=None):
        """Sums over the batch. With a key the model is in training: dropout draws from it."""
        logits, penalties = self._apply(params, key, batch['inputs'])
        return self._sums(logits, penalties, batch)

    def carried(self, params, batch, carry, key=None):
        """(Sums, new carry) of rows that go on where those of the batch before ended, but for the rows that start anew.

        No gradient flows into the batch before: truncated backpropagation through time.
        """
        (carry, logits), penalties = self._apply(params, key, jax.lax.stop_gradient(carry), batch['inputs'],
                                                 starts=batch['starts'], method='extend')
        return self._sums(logits, penalties, batch), jax.lax.stop_gradient(carry)

    def _apply(self, params, key, *inputs, **options):
        """(what the model returns, {name: penalty} of what it sows)."""
        if key is None:
            return self.model.apply({'params': params}, *inputs, **options), {}
        result, sown = self.model.apply({'params': params}, *inputs, train=True, rngs={'dropout': key},
                                        mutable=['penalties'], **options)
        return result, sown.get('penalties', {})

    @staticmethod
    def _sums(logits, penalties, batch):
        targets, weights = batch['targets'], batch['weights']
        loss = (ops.cross_entropy(logits, targets) * weights).sum()
        metrics = dict(accuracy=jnp.where(jnp.argmax(logits, axis=-1) == targets, weights, 0).sum())
        if penalties:
            metrics['penalty'] = sum(penalties.values())
            loss += metrics['penalty']
        return Sums(loss=loss, weight=weights.sum(), metrics=metrics)

    @staticmethod
    def summary(means):
        """What a reader wants to see of the means of an evaluation."""
        return {**means, 'perplexity': math.exp(min(means['loss'], 700)), 'bits_per_token': means['loss'] / math.log(2)}
