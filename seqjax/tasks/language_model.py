"""Language modelling: predict every next token."""

import dataclasses
import math

from flax import linen
from flax.core import meta
import jax.numpy as jnp

from seqjax import ops
from seqjax.tasks.sums import Sums


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """-sum_t log P(target_t | tokens up to t), over the targets whose weight is 1.

    model: a linen module, tokens [B, T] -> logits [B, T, V].
    batch: inputs [B, T], targets [B, T] and weights [B, T].
    """

    model: linen.Module

    def init(self, key, batch):
        """Variables of the model, their axes named."""
        return self.model.init(key, batch['inputs'])

    def plain_init(self, key, batch):
        """Parameters of the model, as plain arrays."""
        return meta.unbox(self.init(key, batch)['params'])

    def __call__(self, params, batch, key=None):
        """Sums over the batch. With a key the model is in training: dropout draws from it."""
        logits = self.model.apply({'params': params}, batch['inputs'], train=key is not None,
                                  rngs=None if key is None else {'dropout': key})  # [B, T, V]
        weights = batch['weights']
        correct = jnp.argmax(logits, axis=-1) == batch['targets']
        return Sums(loss=(ops.cross_entropy(logits, batch['targets']) * weights).sum(), weight=weights.sum(),
                    metrics=dict(accuracy=jnp.where(correct, weights, 0).sum()))

    @staticmethod
    def summary(means):
        """What a reader wants to see of the means of an evaluation."""
        return {**means, 'perplexity': math.exp(min(means['loss'], 700)), 'bits_per_token': means['loss'] / math.log(2)}
