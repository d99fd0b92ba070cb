"""Language modelling: predict every next token."""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from seqjax import ops
from seqjax.tasks.options import Smoothing
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Input, Task


@dataclasses.dataclass(frozen=True)
class LanguageModel(Task):
    """-sum_t log P(target_t | tokens up to t), over the targets whose weight is 1.

    model: a linen module, tokens [B, T] -> logits [B, T, V]. token_sizes: characters and bytes of every token [V, 2], as
    tokenizers have it, or None; then the text can also be measured by them, which tokenizers of all kinds agree on.
    batch: inputs [B, T], targets [B, T] and weights [B, T]; segments [B, T] where rows hold several texts; for `carried`
    also starts [B].

    label_smoothing: see `ops.cross_entropy`; in training only. In training, what the model sows in the collection 'penalties'
    (sums over its steps) is added to the loss.
    """

    token_sizes: np.ndarray | None = dataclasses.field(default=None, compare=False, repr=False)
    label_smoothing: float = 0.0

    data: ClassVar[str] = 'text'
    output_kind: ClassVar[str] = 'next_token'
    unit: ClassVar[str] = 'nats per token'
    writes: ClassVar[bool] = True
    options: ClassVar[type] = Smoothing

    @classmethod
    def batch_spec(cls, options, B, T):
        spec = super().batch_spec(options, B, T)
        del spec['lengths']
        return spec

    @classmethod
    def longest_row(cls, options):
        return options['sequence_length']

    def initial_carry(self, rows):
        """What a recurrent model remembers of `rows` rows before the first batch."""
        return self.model.initial_state(rows, 0)

    def __call__(self, params, batch, key=None):
        """Sums over the batch. With a key the model is in training: dropout draws from it."""
        packed = {'segments': batch['segments']} if 'segments' in batch else {}
        logits, penalties = self._apply(params, key, batch['inputs'], **packed)
        return self._sums(logits, penalties, batch, key)

    def carried(self, params, batch, carry, key=None):
        """(Sums, new carry) of rows that go on where those of the batch before ended, but for the rows that start anew.

        No gradient flows into the batch before: truncated backpropagation through time.
        """
        (carry, logits), penalties = self._apply(params, key, jax.lax.stop_gradient(carry), batch['inputs'],
                                                 starts=batch['starts'], method='extend')
        return self._sums(logits, penalties, batch, key), jax.lax.stop_gradient(carry)

    def _apply(self, params, key, *inputs, **options):
        """(what the model returns, {name: penalty} of what it sows)."""
        if key is None:
            return self.model.apply({'params': params}, *inputs, **options), {}
        result, sown = self.model.apply({'params': params}, *inputs, train=True, rngs={'dropout': key},
                                        mutable=['penalties'], **options)
        return result, sown.get('penalties', {})

    def _sums(self, logits, penalties, batch, key):
        targets, weights = batch['targets'], batch['weights']
        loss = ops.cross_entropy(logits, targets, 0.0 if key is None else self.label_smoothing)
        loss = (loss * weights).sum()
        metrics = dict(accuracy=jnp.where(jnp.argmax(logits, axis=-1) == targets, weights, 0).sum())
        if self.token_sizes is not None and key is None:
            sizes = jnp.asarray(self.token_sizes, jnp.float32)[targets] * weights[..., None]  # [B, T, 2]
            metrics['characters'], metrics['bytes'] = sizes.sum(axis=(0, 1))
        if penalties:
            metrics['penalty'] = sum(leaf.sum() for leaf in jax.tree.leaves(penalties))
            loss += metrics['penalty']
        return Sums(loss=loss, weight=weights.sum(), metrics=metrics)

    def exported(self, T, codec, options):
        def forward(params, tokens):
            return dict(logits=self.model.apply({'params': params}, tokens))

        return forward, dict(tokens=Input(('B', T), self.model.vocabulary - 1))

    def numbers(self, sums):
        """Means, perplexity, and the bits that a token, and where their sizes are known a character and a byte, takes."""
        means = {name: float(value) for name, value in sums.means().items()}
        bits = means['loss'] / math.log(2)
        sizes = {unit: means.pop(f'{unit}s') for unit in ('character', 'byte') if f'{unit}s' in means}
        return {**means, 'perplexity': math.exp(min(means['loss'], 700)), 'bits_per_token': bits,
                **{f'bits_per_{unit}': bits / size for unit, size in sizes.items()}}
