"""Encoder-decoder Transformers: the one of 2017, T5, and a decoder for those that read something else.

Shapes: B rows, S source steps, T target steps, N = B k hypotheses, D width, V target vocabulary.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError
from seqjax.models.composed import Composed, decoder_inputs, only, placed
from seqjax.models.from_config import TransformerFields


class Memory(NamedTuple):
    """What the decoder knows of a source: keys and values of every layer, and the lengths [B] of the sources."""

    layers: Any
    lengths: jax.Array


class DecoderState(NamedTuple):
    """What the decoder remembers: caches of every layer, the step [N] it is at, and where it looked last [N, S]."""

    caches: Any
    position: jax.Array
    weights: jax.Array


class CrossDecoder(Composed, kw_only=True):
    """A Transformer decoder with cross-attention to what an encoder says of a source, whatever that is.

    source, lengths [B], target tokens [B, T] -> logits [B, T, V] of every target, the ones before it given. A subclass defines
    `encode(source, lengths, train)` -> [B, S, D], and calls `set_up_decoder` in its setup.

    decoder_block: an `nn.Block` with cross-attention. target_positions: of what is written. dropout: on what the decoder says.

    For decoding, one step at a time, for k hypotheses of every row: `begin` and `step`.
    """

    dropout: float = 0.0
    decoder_block: linen.Module | Callable[..., linen.Module] | None = None
    target_positions: linen.Module | None = None

    output_kinds = ('target_token',)

    def __post_init__(self):
        object.__setattr__(self, 'decoder_block', nn.maker(self.decoder_block))
        super().__post_init__()

    @linen.nowrap
    def set_up_decoder(self, vocabulary, depth):
        """Makes the layers of the decoder, in setup."""
        self.target_embedding = self.make_embedding(vocabulary)
        self.target_place = self.make_positions(causal=True, name='target_positions')
        self.drop, self.drop_output = linen.Dropout(self.embedding_dropout), linen.Dropout(self.dropout)
        self.decoder = self.make_stack(depth, cross=True)
        if not self.tie_embeddings:
            self.output = nn.Projection((vocabulary,), ('embed', 'vocab'), bias=False, kernel_init=self.kernel_init(),
                                        dtype=jnp.dtype(self.dtype))

    def __call__(self, inputs, lengths=None, targets=None, *, previous=None, train=False):
        """previous: [B, T], what the decoder reads instead of START and all targets but the last. targets None: one step."""
        encoded, previous = self.encode(inputs, lengths, train=train), decoder_inputs(inputs, targets, previous)
        return self.score(self.write(encoded, previous, lengths, train=train)[0])

    def align(self, inputs, lengths, targets):
        """[B, T, S]: where the decoder looks as it writes the targets, the mean over its layers and heads."""
        return self.write(self.encode(inputs, lengths), decoder_inputs(inputs, targets), lengths, look=True)[1]

    def begin(self, inputs, lengths=None, max_length=64, *, train=False):
        """(Memory, DecoderState) after reading a source, tokens [B, S] or another; answers may have max_length tokens."""
        encoded = self.encode(inputs, lengths, train=train)
        B, S, _ = encoded.shape
        lengths = jnp.full(B, S, jnp.int32) if lengths is None else lengths
        caches, *_ = self.decoder.by_kind(self.decoder.empty_states(B, max_length))
        return Memory(self.decoder.read(encoded), lengths), DecoderState(
            caches, jnp.zeros(B, jnp.int32), jnp.zeros((B, S), jnp.float32))

    def step(self, memory, state, tokens):
        """Reads one token of each of N = B k hypotheses, those of a row next to each other: (state, logits [N, V])."""
        steps = state.position[:, None]  # [N, 1]
        bias = self.target_place.bias(self.slots(self.decoder, state.caches))
        context = nn.Context(ops.Mask(causal=True, window=self.sliding_window), bias, steps, state.position,
                             source=ops.Mask(lengths=memory.lengths), look=True)
        x = self._embed(self.target_embedding, self.target_place, tokens[:, None], steps, False)
        x, caches, weights = self._decode(x, context, state.caches, memory.layers)
        return DecoderState(caches, state.position + 1, weights[:, 0]), self.score(x)[:, 0]

    @linen.nowrap
    def attended(self, state):
        """[N, S]: where the step that led to this state looked."""
        return state.weights

    def write(self, encoded, previous, lengths=None, *, seen=None, seen_source=None, look=False, train=False):
        """([B, T, D], weights [B, T, S] or None) of a decoder that is given all that it reads, previous [B, T].

        encoded: [B, S, D], of which the first lengths[b] count, or those that seen_source [B, S] says. seen: [B, T] of booleans, the
        steps of `previous` that are looked at; None: all.
        """
        memories, T = self.decoder.read(encoded), previous.shape[1]
        steps = jnp.arange(T)
        context = nn.Context(only(ops.Mask(causal=True, window=self.sliding_window), seen, T), self.target_place.bias(T), steps,
                             source=only(ops.Mask(lengths=lengths), seen_source, T), look=look)
        x = self._embed(self.target_embedding, self.target_place, previous, steps, train)
        x, _, weights = self._decode(x, context, None, memories, train)
        return self.drop_output(x, deterministic=not train), weights

    def _decode(self, x, context, caches, memories, train=False):
        """([B, T, D], caches, weights [B, T, S], their mean over the layers, where context.look, or None)"""
        x, states = self.decoder(x, context, self.decoder.by_block(caches, memories, None), train=train)
        caches, weights, _ = self.decoder.by_kind(states)
        if context.look:
            weights = weights.mean(axis=1) if self.scan_layers else sum(weights) / len(weights)
        return x, caches, weights if context.look else None

    def _embed(self, table, places, tokens, steps, train):
        return self.drop(placed(table(tokens), places, steps), deterministic=not train)

    def score(self, x):
        """Logits [B, T, V] of what the decoder says."""
        return self.target_embedding.attend(x) if self.tie_embeddings else self.output(x)


class EncoderDecoder(CrossDecoder):
    """source tokens [B, S], lengths [B], target tokens [B, T] -> logits [B, T, V] of every target, the ones before it given.

    The fields are those of `Composed`: block is the encoder's, decoder_block, with cross-attention, the decoder's, and each of them
    may have positions. decoder_depth: layers of the decoder; 0: depth. tie_embeddings: output weights are those of the target's embedding, which
    is that of the source too where the data has one vocabulary (`shared`).

    For decoding, one step at a time, for k hypotheses of every row: `begin` and `step`.
    """

    vocabulary: int
    target_vocabulary: int = 0
    shared: bool = False

    decoder_depth: int = 0
    source_positions: linen.Module | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.decoder_depth < 0:
            raise FieldError('decoder_depth', self.decoder_depth, 'must be at least 0; 0: as many layers as the encoder')
        if self.positions == 'learned':
            raise FieldError('positions', 'learned', "needs a length that no row exceeds, which translations do not have; take "
                             "'sinusoidal', 'relative' or another")

    def setup(self):
        self.set_up_decoder(self.target_vocabulary or self.vocabulary, self.decoder_depth)
        self.source_embedding = self.target_embedding if self.shared else self.make_embedding(self.vocabulary)
        self.source_place = self.make_positions(name='source_positions')
        self.encoder = self.make_stack()

    def encode(self, inputs, lengths=None, *, seen=None, train=False):
        """[B, S, D]: what the encoder says of every step of a source.

        seen: [B, S] of booleans, the steps that are looked at, if they are not the first lengths[b].
        """
        S = inputs.shape[1]
        steps = jnp.arange(S)
        mask = only(ops.Mask(window=self.sliding_window, lengths=lengths), seen, S)
        context = nn.Context(mask, self.source_place.bias(S), steps)
        x = self._embed(self.source_embedding, self.source_place, inputs, steps, train)
        return self.encoder(x, context, train=train)[0]


class Transformer(TransformerFields, EncoderDecoder, kw_only=True):
    """The Transformer (Vaswani et al. 2017): post-norm, ReLU, sinusoidal positions, tied weights, biases.

    'Base' has width 512, depth 6, heads 8, feed_forward 2048. norm_position='pre' trains without a long warm-up (Xiong et al. 2020).
    Initial weights keep the variance of what goes through them (init_scale=0).
    """

    activation: str = 'relu'
    positions: str = 'sinusoidal'
    norm_position: str = 'post'
    bias: bool = True
    init_scale: float = 0.0


class T5(TransformerFields, EncoderDecoder, kw_only=True):
    """T5 (Raffel et al. 2020): relative positions, RMSNorm, no biases, scores that are not divided by sqrt(K).

    The second edition, 1.1, has gated=True, activation='gelu_tanh' and tie_embeddings=False. output_scale: what the decoder says is
    multiplied with it before it is scored; 0: 1 / sqrt(D) where tied, for rows of the embedding have size 1 in T5, else 1.
    """

    activation: str = 'relu'
    norm: str = 'rms'
    epsilon: float = 1e-6
    positions: str = 'relative'
    init_scale: float = 0.0
    output_scale: float = 0.0

    attention_scale = 1.0
    embedding_scale = 1.0

    def score(self, x):
        scale = self.output_scale or (self.width ** -0.5 if self.tie_embeddings else 1.0)
        return super().score(x * jnp.asarray(scale, x.dtype))
