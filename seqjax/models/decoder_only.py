"""Decoder-only Transformers: language models that look at the past. GPT and Llama are the same network with other defaults."""

from flax import linen
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, refuse_unused
from seqjax.models.composed import Composed, only, placed
from seqjax.models.from_config import TransformerFields
from seqjax.models.language_model import LanguageModel


class DecoderOnly(Composed, LanguageModel):
    """tokens [B, T] -> logits [B, T, V] of the token after each.

        block = nn.Block(LocalAttention(64), nn.FeedForward(), norm)
        models.DecoderOnly(V, width=64, depth=12, block=block, norm=norm)

    The fields are those of `Composed`. context_length: no row is longer; None: any length.
    segments: [B, T] where rows hold several texts (see `data.batches.packing`): attention stays within a
    text, and positions are counted from the first of each. prefix: [B], so many first positions are seen by
    all (a prefix language model).

    Its generation state is the states of all layers, KV caches as a rule, and the position that each row has reached.
    """

    context_length: int | None = None

    balances = True

    def setup(self):
        self.embedding = self.make_embedding(self.vocabulary)
        self.place = self.make_positions(self.context_length, causal=True)
        self.drop = linen.Dropout(self.embedding_dropout)
        self.decoder = self.make_stack()
        self.output = self.make_output(self.kernel_init())

    def hidden(self, tokens, *, segments=None, prefix=None, lengths=None, steps=None, seen=None, train=False):
        """(hidden states [B, T, D], None). lengths: [B], positions past them are not attended to.

        steps: [B, T], the positions, if not one after another. seen: [B, T] of booleans, the positions that are attended to, if
        they are not the first lengths[b].
        """
        T = tokens.shape[1]
        self._check_length(T)
        if steps is None:
            steps = jnp.arange(T) if segments is None else ops.steps_of_segments(segments)
        mask = ops.Mask(causal=True, window=self.sliding_window, segments=segments, prefix=prefix, lengths=lengths)
        context = nn.Context(only(mask, seen, T), self.place.bias(T), steps)
        return self.decoder(self._embed(tokens, steps, train), context, train=train)[0], None

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """Empty caches with room for max_length steps."""
        self._check_length(max_length, 'a cache of {} steps')
        return self.make_stack(parent=None).empty_states(batch_size, max_length), jnp.zeros(batch_size, jnp.int32)

    @property
    def rewinds(self):
        """Whether `rewind` and `paged_state` can be: caches have a slot for every position, as the matrix of linear attention has not."""
        return self.make_stack(parent=None).rewinds

    @linen.nowrap
    def paged_state(self, batch_size, max_length, pages, page_size):
        """The same in pages: a store of so many for all rows, and the numbers of those that a row has, none yet."""
        self._check_length(max_length, 'a cache of {} steps')
        caches = self.make_stack(parent=None).empty_states(pages, page_size)
        return caches, jnp.zeros(batch_size, jnp.int32), jnp.full((batch_size, -(-max_length // page_size)), pages, jnp.int32)

    def extend_hidden(self, state, tokens, lengths=None):
        """(state, hidden states [B, T, D])"""
        (caches, position, *pages), T = state, tokens.shape[1]
        steps = position[:, None] + jnp.arange(T)  # [B, T]
        bias = self.place.bias(self.slots(self.decoder, caches, *pages))
        context = nn.Context(ops.Mask(causal=True, window=self.sliding_window), bias, steps, position, lengths, *pages)
        x, caches = self.decoder(self._embed(tokens, steps, False), context, caches)
        return (caches, position + (T if lengths is None else lengths), *pages), x

    @linen.nowrap
    def rewind(self, state, position):
        """The state after the first position[b] tokens of row b: later slots are looked at by no step, and written over."""
        return state[0], position

    def _embed(self, tokens, steps, train):
        return self.drop(placed(self.embedding(tokens), self.place, steps), deterministic=not train)

    @linen.nowrap
    def _check_length(self, T, what='{} tokens in a row'):
        if self.context_length is not None and T > self.context_length:
            raise ValueError(f'{what.format(T)}, and context_length={self.context_length}')


class GPT(TransformerFields, DecoderOnly, kw_only=True):
    """GPT-2 and GPT-3 (Radford et al. 2019; Brown et al. 2020): pre-norm, learned positions, output tied to the embedding.

    Published: bias=True, activation='gelu_tanh'. GPT-3 also alternates dense and locally banded attention, which this does not.
    scale_attn_by_inverse_layer_idx: attention scores of layer l are divided by l + 1, too (Karamcheti et al. 2021).
    """

    scale_attn_by_inverse_layer_idx: bool = False

    def __post_init__(self):
        super().__post_init__()
        refuse_unused(self, 'scale_attn_by_inverse_layer_idx', self.attention == 'linear',
                      "is of scores, which attention='linear' does not have")


class Llama(TransformerFields, DecoderOnly, kw_only=True):
    """Llama (Touvron et al. 2023): RMSNorm, rotary positions, a gated feed-forward network with SiLU, no bias.

    Grouped queries, as the larger ones and the later have: kv_heads. rotary_factor, rotary_low, rotary_high, rotary_length: rates
    of rotary positions that were changed for longer texts, see `ops.rotary_rates`; Llama 3.1 has 8, 1, 4 and 8192.
    attention_bias: biases in attention and nowhere else.
    """

    activation: str = 'silu'
    gated: bool = True
    positions: str = 'rotary'
    norm: str = 'rms'
    epsilon: float = 1e-6
    tie_embeddings: bool = False
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
