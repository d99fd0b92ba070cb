"""Decoder-only Transformers: language models that look at the past. GPT and Llama are the same network with other defaults."""

from flax import linen
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, refuse_unused
from seqjax.models.transformer_fields import (
    TransformerFields,
    cache_slots,
    kernel_init,
    make_embedding,
    make_positions,
    make_stack,
    only,
    placed,
)


class DecoderOnly(TransformerFields):
    """tokens [B, T] -> logits [B, T, V] of the token after each.

    The fields are those of `TransformerFields`; tie: output weights are those of the embedding.
    segments: [B, T] where rows hold several texts (see `data.packing`): a step looks only at its own text, and positions are
    counted from the first step of each. prefix: [B], so many first steps are seen by all (a prefix language model).

    Its generation state is the caches of all layers, and the step that each row has reached.
    """

    context_length: int | None = None

    output_kinds = ('next_token',)
    packs = True  # a row may hold several texts
    balances = True

    def setup(self):
        dtype = jnp.dtype(self.dtype)
        self.embedding = make_embedding(self, self.vocabulary)
        self.place = make_positions(self, self.context_length, causal=True)
        self.drop = linen.Dropout(self.embedding_dropout)
        self.decoder = make_stack(self)
        if not self.tie:
            self.output = nn.Projection((self.vocabulary,), ('embed', 'vocab'), bias=False, kernel_init=kernel_init(self),
                                        dtype=dtype)

    def __call__(self, tokens, *, segments=None, prefix=None, train=False):
        x, _ = self.hidden(tokens, segments=segments, prefix=prefix, train=train)
        return self.score(x)

    def hidden(self, tokens, *, segments=None, prefix=None, lengths=None, steps=None, seen=None, train=False):
        """([B, T, D], None): what the last layer says, before the output. lengths: [B], steps past them are not looked at.

        steps: [B, T], where the steps stand, if not one after another. seen: [B, T] of booleans, the steps that are looked at, if
        they are not the first lengths[b].
        """
        T = tokens.shape[1]
        self._check_length(T)
        if steps is None:
            steps = jnp.arange(T) if segments is None else ops.steps_of_segments(segments)
        mask = ops.Mask(causal=True, window=self.window, segments=segments, prefix=prefix, lengths=lengths)
        context = nn.Context(only(mask, seen, T), self.place.bias(T), steps)
        return self.decoder(self._embed(tokens, steps, train), context, train=train)[0], None

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """Empty caches with room for max_length steps."""
        self._check_length(max_length, 'a cache of {} steps')
        return make_stack(self, parent=None).empty_states(batch_size, max_length), jnp.zeros(batch_size, jnp.int32)

    @property
    def pages(self):
        """Whether its caches can be kept in pages: the one matrix of linear attention needs none."""
        return self.attention == 'softmax'

    @linen.nowrap
    def paged_state(self, batch_size, max_length, pages, page_size):
        """The same in pages: a store of so many for all rows, and the numbers of those that a row has, none yet."""
        self._check_length(max_length, 'a cache of {} steps')
        caches = make_stack(self, parent=None).empty_states(pages, page_size)
        return caches, jnp.zeros(batch_size, jnp.int32), jnp.full((batch_size, -(-max_length // page_size)), pages, jnp.int32)

    def extend(self, state, tokens, lengths=None):
        """Reads tokens [B, T] (row b only up to lengths[b]) and returns (state, logits [B, T, V])."""
        state, x = self.extend_hidden(state, tokens, lengths)
        return state, self.score(x)

    def extend_hidden(self, state, tokens, lengths=None):
        """The same with what the last layer says [B, T, D], of which `score` makes logits."""
        (caches, position, *pages), T = state, tokens.shape[1]
        steps = position[:, None] + jnp.arange(T)  # [B, T]
        bias = self.place.bias(cache_slots(self, caches, *pages))
        context = nn.Context(ops.Mask(causal=True, window=self.window), bias, steps, position, lengths, *pages)
        x, caches = self.decoder(self._embed(tokens, steps, False), context, caches)
        return (caches, position + (T if lengths is None else lengths), *pages), x

    @property
    def rewinds(self):
        """Whether `rewind` can be: caches have a slot for every step, and the one matrix of linear attention has none."""
        return self.attention == 'softmax'

    @linen.nowrap
    def rewind(self, state, position):
        """The state after the first position[b] tokens of row b: later slots are looked at by no step, and written over."""
        return state[0], position

    def _embed(self, tokens, steps, train):
        return self.drop(placed(self.embedding(tokens), self.place(steps), self.positions), deterministic=not train)

    def score(self, x):
        """Logits [B, T, V] of what the last layer says."""
        return self.embedding.attend(x) if self.tie else self.output(x)

    @linen.nowrap
    def _check_length(self, T, what='{} tokens in a row'):
        if self.context_length is not None and T > self.context_length:
            raise ValueError(f'{what.format(T)}, and context_length={self.context_length}')


class GPT(DecoderOnly):
    """GPT-2 and GPT-3 (Radford et al. 2019; Brown et al. 2020): pre-norm, learned positions, output tied to the embedding.

    Published: bias=True, activation='gelu_tanh'. GPT-3 also alternates dense and locally banded attention, which this does not.
    """


class Llama(DecoderOnly):
    """Llama (Touvron et al. 2023): RMSNorm, rotary positions, a gated feed-forward network with SiLU, no bias.

    Grouped queries, as the larger ones and the later have: key_heads. rotary_factor, rotary_low, rotary_high, rotary_length: rates
    of rotary positions that were changed for longer texts, see `ops.rotary_rates`; Llama 3.1 has 8, 1, 4 and 8192.
    attention_bias: biases in attention and nowhere else.
    """

    activation: str = 'silu'
    gated: bool = True
    positions: str = 'rotary'
    norm: str = 'rms'
    epsilon: float = 1e-6
    tie: bool = False
    attention_bias: bool = False
    rotary_factor: float = 1.0
    rotary_low: float = 1.0
    rotary_high: float = 4.0
    rotary_length: int = 0

    def __post_init__(self):
        super().__post_init__()
        if not self.rotary_factor > 0:
            raise FieldError('rotary_factor', self.rotary_factor, 'must be more than 0; 1 changes nothing')
        if not self.rotary_low < self.rotary_high:
            raise FieldError('rotary_low', self.rotary_low, f'must be less than rotary_high={self.rotary_high}')
        for field in ('rotary_factor', 'rotary_length'):
            refuse_unused(self, field, self.positions != 'rotary', f"is for positions='rotary', and they are {self.positions!r}")
        for field in ('rotary_low', 'rotary_high'):
            refuse_unused(self, field, not self.rotary_length, 'is for rates that change by a part, and rotary_length=0')

    @property
    def rotary_scaling(self):
        return self.rotary_factor, self.rotary_low, self.rotary_high, self.rotary_length
