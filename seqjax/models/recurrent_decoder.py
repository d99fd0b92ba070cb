"""A recurrent decoder that is told of a source: what it computes, whatever reads the source.

Shapes: B rows, S source steps, T target steps, N decoder units, E the width of the encoder's outputs, k hypotheses of a row.
"""

from typing import Any, NamedTuple

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.models import from_config
from seqjax.models.composed import decoder_inputs


class Memory(NamedTuple):
    """What the decoder knows of a source. tokens, mask: [B, S], or None where it is an image; keys, values: [B, S, ...] for attention, or
    None; mean: [B, E]."""

    tokens: jax.Array | None
    mask: jax.Array | None
    keys: Any
    values: Any
    mean: jax.Array


class DecoderState(NamedTuple):
    """What the decoder remembers. layers: of the recurrent stack; answer: [N, R], what its output saw; weights: [N, S]."""

    layers: tuple
    answer: jax.Array
    weights: jax.Array


class RecurrentDecoder(linen.Module):
    """source, lengths [B], target tokens [B, T] -> logits [B, T, V] of every target, the ones before it given.

    A subclass has the fields that are named here, `begin(source, lengths, max_length, train)` -> (Memory, DecoderState),
    `make_decoder(**options)`, the recurrent stack, and calls `set_up_decoder` in its setup:

        context     'attention': an `nn.Attention` over the source gives every step a context of its own; others: see `_has_context`
        feed        where a context goes: 'state', 'output' or 'input', see `models.Seq2Seq`
        width, embedding, tie_embeddings, dropout, dtype
    """

    feed = 'state'
    value_width = 0
    hard_attention = False

    @linen.nowrap
    def set_up_decoder(self, vocabulary, stack, bridged):
        """Makes the layers of the decoder around its recurrent stack, in setup. bridged: its first state is a map of what is known of
        the source."""
        dtype, mapped = jnp.dtype(self.dtype), linen.initializers.lecun_normal()
        self.drop = linen.Dropout(self.dropout)
        self.target_embedding = self.make_embedding(vocabulary)
        self.decoding = stack
        if bridged:
            first = jax.eval_shape(lambda: self.decoding.zero_state(1))
            self.bridge = [[nn.Projection(part.shape[1:], ('embed', 'hidden'), kernel_init=mapped) for part in layer]
                           for layer in first]
        if self.context == 'attention':
            self.lookup = from_config.attention(self)
        R = self._answer_width
        if self._has_context:
            self.readout = nn.Projection((R,), ('hidden', 'embed'), kernel_init=mapped, dtype=dtype)
        if not self.tie_embeddings:
            self.output = nn.Projection((vocabulary,), ('embed', 'vocab'), kernel_init=linen.initializers.normal(R ** -0.5), dtype=dtype)

    @linen.nowrap
    def make_embedding(self, vocabulary):
        """A table of tokens."""
        D = self.embedding or self.width
        return nn.Embedding(vocabulary, D, linen.initializers.normal(D ** -0.5), jnp.dtype(self.dtype))

    def __call__(self, inputs, lengths=None, targets=None, *, previous=None, train=False):
        """previous: [B, T], what the decoder reads instead of START and all targets but the last. targets None: one step."""
        answers, weights, memory = self._write(inputs, lengths, targets, previous, train)
        return self._score(answers, weights, memory)

    def align(self, inputs, lengths, targets):
        """[B, T, S]: where the decoder looks as it writes the targets."""
        return self._write(inputs, lengths, targets, None, False)[1]

    def step(self, memory, state, tokens):
        """Reads one token of each of N = B k hypotheses, those of a row next to each other: (state, logits [N, V])."""
        state = self._advance(memory, state, self.target_embedding(tokens), train=False)
        scores = self._score(_by_row(state.answer, memory), _by_row(state.weights, memory), memory)
        return state, scores.reshape(len(tokens), -1)

    @linen.nowrap
    def attended(self, state):
        """[N, S]: where the step that led to this state looked; None without attention."""
        return state.weights if self.context == 'attention' else None

    @linen.nowrap
    def first_state(self, layers, rows, steps, dtype):
        """The DecoderState before the first token. layers: of the recurrent stack."""
        return DecoderState(layers, jnp.zeros((rows, self._answer_width), dtype), jnp.zeros((rows, steps), jnp.float32))

    # ------------------------------------------------------------------------------------------------ its steps

    def _write(self, inputs, lengths, targets, previous, train):
        """(answers [B, T, R], weights [B, T, S] or None, Memory) of a decoder that is given what came before."""
        memory, state = self.begin(inputs, lengths, train=train)
        x = self._embed(self.target_embedding, decoder_inputs(inputs, targets, previous), train)  # [B, T, D]
        if self.context == 'attention' and self.feed == 'state':  # the next state needs the context, and not the answer
            def look_and_move(model, layers, x):
                layers, h, context, weights = model._move(memory, state._replace(layers=layers), x, train)
                return layers, (h, context, weights)

            _, (h, context, weights) = _over_time(look_and_move)(self, state.layers, x)
            answers = self._answer(h, context, x)
        elif self._has_context and self.feed == 'input':
            def advance(model, state, x):
                state = model._advance(memory, state, x, train)
                return state, (state.answer, state.weights)

            _, (answers, weights) = _over_time(advance)(self, state, x)
        else:  # no step needs the answer before it: the recurrence runs by itself, and attention is one product for all steps
            if self._has_context and self.feed == 'state':
                context, _ = self._context(memory, x)
                h, _ = self.decoding(joined(x, context), None, state.layers, train=train)
            else:
                h, _ = self.decoding(x, None, state.layers, train=train)
            context, weights = self._context(memory, h)
            answers = self._answer(h, context, x)
        return self.drop(answers, deterministic=not train), weights, memory

    def _advance(self, memory, state, x, train):
        """The next DecoderState of N hypotheses, from the embedding [N, D] of the token before."""
        layers, h, context, weights = self._move(memory, state, x, train)
        return DecoderState(layers, self._answer(h, context, x), state.weights if weights is None else weights)

    def _move(self, memory, state, x, train):
        """(layers of the next state, h [N, units], context [N, E] or None, weights [N, S] or None)"""
        look = lambda h: (None if part is None else part.reshape(len(x), -1)
                          for part in self._context(memory, _by_row(h, memory)))
        inner = x
        if self._has_context and self.feed == 'state':
            context, weights = look(state.layers[-1][0])
            inner = joined(x, context)
        elif self._has_context and self.feed == 'input':
            inner = joined(x, state.answer)
        h, layers = self.decoding(inner[:, None], None, state.layers, train=train)
        h = h[:, 0]
        if not self._has_context or self.feed != 'state':
            context, weights = look(h)
        return layers, h, context, weights

    def _context(self, memory, queries):
        """(contexts [B, Q, E], weights [B, Q, S] or None) of queries [B, Q, N]; (None, None) where there is no context."""
        if self.context == 'attention':
            return self.lookup(queries.astype(self.dtype), memory.keys, memory.values, memory.mask)
        if self._has_context:
            return jnp.broadcast_to(memory.mean[:, None], (*queries.shape[:2], memory.mean.shape[-1])), None
        return None, None

    def _answer(self, h, context, x):
        """What the output sees, [..., R]."""
        if context is None:
            return h
        return jnp.tanh(self.readout(joined(h, context, x) if self.feed == 'state' else joined(h, context)))

    def _score(self, answers, weights, memory):
        """Logits [B, Q, V] of answers [B, Q, R]."""
        del weights, memory
        return self.target_embedding.attend(answers) if self.tie_embeddings else self.output(answers)

    def _bridged(self, sources):
        """Layers of the first state: tanh(W source + b) for a source [B, E] of every part."""
        return tuple(tuple(jnp.tanh(bridge(part.astype(jnp.float32))) for bridge, part in zip(bridges, layer))
                     for bridges, layer in zip(self.bridge, sources))

    def _embed(self, table, tokens, train):
        return self.drop(table(tokens), deterministic=not train)

    @property
    def _has_context(self):
        """Whether every step is told something of the source."""
        raise NotImplementedError

    @property
    def _answer_width(self):
        """R. An embedding that is the output too decides it, otherwise it is that of the state."""
        if self._has_context:
            return self.embedding or self.width
        return self.make_decoder(parent=None).output_width


def _over_time(step):
    """`step(model, carry, x)` for every step of axis 1, with the same parameters."""
    return linen.scan(step, variable_broadcast='params', split_rngs={'params': False, 'dropout': True}, in_axes=1, out_axes=1)


def joined(*arrays):
    return jnp.concatenate([array.astype(arrays[0].dtype) for array in arrays], axis=-1)


def _by_row(array, memory):
    """[B k, ...] -> [B, k, ...]"""
    return array.reshape(len(memory.mean), -1, array.shape[-1])
