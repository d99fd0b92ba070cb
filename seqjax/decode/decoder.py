"""One interface for all that can be decoded: encoder-decoders and language models.

    memory, state = decoder.begin(inputs [B, S], lengths [B], max_length)      both have B rows; memory never changes
    first = decoder.first(inputs, lengths)                                     [B], what is read first
    state, logits = decoder.step(memory, state, tokens [N])                    N = B k, the k hypotheses of a row together
    decoder.attention(state)                                                   [N, S], where the step looked, or None

A search takes the closure `functools.partial(decoder.step, memory)`.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp

from seqjax.errors import FieldError
from seqjax.special_tokens import START


def decoder(model, params, start=START):
    """The decoder of a model, by what it has: `begin` and `step`, or `initial_state` and `extend`."""
    if hasattr(model, 'begin'):
        return Decoder(model, params, start)
    if hasattr(model, 'extend'):
        return LanguageModelDecoder(model, params)
    raise FieldError('model', type(model).__name__, 'writes no tokens: it has neither begin and step nor extend')


@dataclasses.dataclass(frozen=True, eq=False)
class Decoder:
    """An encoder-decoder; start: what its decoder reads first."""

    model: Any
    params: Any
    start: int = START

    def begin(self, inputs, lengths, max_length):
        return self.model.apply({'params': self.params}, inputs, lengths, max_length, method='begin')

    def first(self, inputs, lengths):
        return jnp.full(len(inputs), self.start)

    def step(self, memory, state, tokens):
        return self.model.apply({'params': self.params}, memory, state, tokens, method='step')

    def attention(self, state):
        return self.model.attended(state)


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageModelDecoder:
    """A language model that goes on with a prompt: all of it but its last token is read at the beginning."""

    model: Any
    params: Any

    def begin(self, inputs, lengths, max_length):
        B, S = inputs.shape
        context = self.model.context_length
        if context is not None and S + max_length > context:
            raise FieldError('context_length', context, f'is too short for a prompt of {S}, its padding counted, and '
                             f'{max_length} new tokens; ask for fewer')
        state = self.model.initial_state(B, S + max_length)
        state, _ = self.model.apply({'params': self.params}, state, inputs, jnp.maximum(lengths - 1, 0), method='extend')
        return (), state

    def first(self, inputs, lengths):
        return jnp.take_along_axis(inputs, jnp.maximum(lengths - 1, 0)[:, None], axis=1)[:, 0]

    def step(self, memory, state, tokens):
        state, logits = self.model.apply({'params': self.params}, state, tokens[:, None], method='extend')
        return state, logits[:, 0]

    def attention(self, state):
        return None
