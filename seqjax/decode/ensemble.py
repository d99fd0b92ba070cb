"""Several models that write one text together."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from seqjax.decode.decoder import START, decoder
from seqjax.decode.hypotheses import log_softmax
from seqjax.errors import FieldError, suggestion

AVERAGES = ('probability', 'log_probability')


def ensemble(models, params, start=START, average='probability'):
    """The `Ensemble` of models, each with its parameters."""
    if len(models) != len(params) or not models:
        raise ValueError(f'{len(models)} models and {len(params)} trees of parameters; give one tree for every model')
    return Ensemble(tuple(decoder(*pair, start) for pair in zip(models, params)), average)


@dataclasses.dataclass(frozen=True, eq=False)
class Ensemble:
    """Decoders with one vocabulary as one decoder, which every search takes as it takes them.

    average: 'probability', log (1/M) sum_m P_m, where one member is enough to make a token likely; or 'log_probability',
    (1/M) sum_m log P_m (normalised again by the search), where one is enough to make it unlikely.
    """

    members: tuple
    average: str = 'probability'

    def __post_init__(self):
        if self.average not in AVERAGES:
            raise FieldError('average', self.average, f'no such average; {suggestion(self.average, AVERAGES)}')

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
