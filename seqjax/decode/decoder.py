"""One interface for all that can be decoded: encoder-decoders, language models and ensembles of them.

    memory, state = decoder.begin(inputs [B, S], lengths [B], max_length)      both have B rows; memory never changes; or of images
    first = decoder.first(inputs, lengths)                                     [B], what is read first
    state, logits = decoder.step(memory, state, tokens [N])                    N = B k, the k hypotheses of a row together
    decoder.attention(state)                                                   [N, S], attention weights of the step, or None

A method takes the closure `functools.partial(decoder.step, memory)`. Decoders are pytrees: their leaves are the parameters.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from seqjax.decode.hypotheses import log_softmax
from seqjax.errors import FieldError, suggestion
from seqjax.special_tokens import END, START

AVERAGES = ('probability', 'log_probability')


def make_decoder(model: Any, params: Any, *, start: int = START, end: Any = None, average: str = 'probability',
                 prepare: Callable | None = None) -> Any:
    """The decoder of a model, by what it has: `begin` and `step`, or `initial_state` and `extend`.

    Args:
        model, params: one of each, or lists of them, which become an `Ensemble`. average: of an ensemble.
        start: what the decoder of an encoder-decoder reads first.
        end: the token that ends an answer, or, for methods that continue texts, a tuple of them; of an encoder-decoder END
            where it is None, and of a language model none; -1: none.
        prepare: of an encoder-decoder, inputs as they come -> as the model reads them, in the compiled program; pixels are
            normalised so.
    """
    if isinstance(model, (list, tuple)):
        if len(model) != len(params) or not model:
            raise ValueError(f'{len(model)} models and {len(params)} trees of parameters; give one tree for every model')
        if len(model) > 1:
            return Ensemble(tuple(make_decoder(*pair, start=start, end=end, prepare=prepare) for pair in zip(model, params)), average)
        (model,), (params,) = model, params
    if hasattr(model, 'begin'):
        statistics = getattr(model, 'batch_stats', None)  # of `models.WithStatistics`; as leaves they are no part of the program
        return Decoder(model if statistics is None else model.module, params, start, END if end is None else end, prepare, statistics or {})
    if hasattr(model, 'extend'):
        return LanguageModelDecoder(model, params, end)
    raise FieldError('model', type(model).__name__, 'writes no tokens: it has neither begin and step nor extend')


@dataclasses.dataclass(frozen=True, eq=False)
class Decoder:
    """An encoder-decoder.

    start: what its decoder reads first. prepare: inputs as they come -> as the model reads them. batch_stats: running statistics of
    its batch norms, or {}.
    """

    model: Any
    params: Any
    start: int = START
    end: int = END
    prepare: Callable | None = None
    batch_stats: Any = dataclasses.field(default_factory=dict)

    def apply(self, *arguments, method):
        """The model applied to its parameters."""
        variables = {'params': self.params, **({'batch_stats': self.batch_stats} if self.batch_stats else {})}
        return self.model.apply(variables, *arguments, method=method)

    def align(self, inputs, lengths, tokens):
        """[B, T, S]: attention weights while tokens [B, T] are written; None: the model has no attention."""
        return self.apply(self.prepare(inputs) if self.prepare else inputs, lengths, tokens, method='align')

    def begin(self, inputs, lengths, max_length):
        return self.apply(self.prepare(inputs) if self.prepare else inputs, lengths, max_length, method='begin')

    def first(self, inputs, lengths):
        return jnp.full(len(inputs), self.start)

    def step(self, memory, state, tokens):
        return self.apply(memory, state, tokens, method='step')

    def attention(self, state):
        return self.model.attended(state)


@dataclasses.dataclass(frozen=True, eq=False)
class LanguageModelDecoder:
    """A language model that continues a prompt: all of it but its last token is read at the beginning."""

    model: Any
    params: Any
    end: Any = None

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


@dataclasses.dataclass(frozen=True, eq=False)
class Ensemble:
    """Decoders with one vocabulary as one decoder, which every method takes as it takes them.

    average: 'probability', log (1/M) sum_m P_m, where one member is enough to make a token likely; or 'log_probability',
    (1/M) sum_m log P_m (normalised again by the search), where one is enough to make it unlikely.
    """

    members: tuple
    average: str = 'probability'

    def __post_init__(self):
        if self.average not in AVERAGES:
            raise FieldError('average', self.average, f'no such average; {suggestion(self.average, AVERAGES)}')

    @property
    def end(self):
        return self.members[0].end

    def begin(self, inputs, lengths, max_length):
        return tuple(zip(*(member.begin(inputs, lengths, max_length) for member in self.members)))

    def first(self, inputs, lengths):
        return self.members[0].first(inputs, lengths)

    def step(self, memory, state, tokens):
        states, logits = zip(*(member.step(*parts, tokens) for member, *parts in zip(self.members, memory, state)))
        if len({part.shape for part in logits}) > 1:
            sizes = ', '.join(str(part.shape[-1]) for part in logits)
            raise ValueError(f'models with vocabularies of {sizes} tokens cannot write together')
        log_probs = jnp.stack([log_softmax(part) for part in logits])  # [M, N, V]
        if self.average == 'log_probability':
            return states, log_probs.mean(axis=0)
        return states, jax.nn.logsumexp(log_probs, axis=0) - math.log(len(logits))

    def attention(self, state):
        """The mean over the members that have attention."""
        weights = [member.attention(part) for member, part in zip(self.members, state)]
        weights = [part.astype(jnp.float32) for part in weights if part is not None]
        return sum(weights[1:], weights[0]) / len(weights) if weights else None


jax.tree_util.register_dataclass(Decoder, ['params', 'batch_stats'], ['model', 'start', 'end', 'prepare'])
jax.tree_util.register_dataclass(LanguageModelDecoder, ['params'], ['model', 'end'])
jax.tree_util.register_dataclass(Ensemble, ['members'], ['average'])
