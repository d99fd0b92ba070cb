"""A recurrent encoder-decoder: reads one sequence and writes another (Sutskever et al. 2014; Cho et al. 2014).

Shapes: B rows, S source steps, T target steps, N decoder units, E the width of the encoder's outputs, k hypotheses of a row.
"""

from typing import Any, NamedTuple

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.models import from_config
from seqjax.special_tokens import START


class Memory(NamedTuple):
    """What the decoder knows of a source. tokens, mask: [B, S]; keys, values: [B, S, ...] for attention, or None; mean: [B, E]."""

    tokens: jax.Array
    mask: jax.Array
    keys: Any
    values: Any
    mean: jax.Array


class DecoderState(NamedTuple):
    """What the decoder remembers. layers: of the recurrent stack; answer: [N, R], what its output saw; weights: [N, S]."""

    layers: tuple
    answer: jax.Array
    weights: jax.Array


class Seq2Seq(linen.Module):
    """source tokens [B, S], lengths [B], target tokens [B, T] -> logits [B, T, V] of every target, the ones before it given.

    context: how the source reaches the decoder, from a bottleneck to none:
        'last'        its first state is the encoder's last one
        'mapped'      its first state is tanh(W last + b), for any widths and two directions
        'mean'        its first state is tanh(W mean + b), with the mean of the encoder's outputs
        'mean_each'   as 'mapped', and the mean is an input at every step
        'attention'   as 'mapped', and a context c_t of its own at every step (Bahdanau et al. 2015)
    feed: where a context of 'mean_each' or 'attention' goes; s is the state, e the embedding of the token before:
        'state'    s_t = cell([e_t, c_t], s_{t-1}) with c_t from s_{t-1}; answer tanh(W [s_t, c_t, e_t])  (Bahdanau et al. 2015)
        'output'   s_t = cell(e_t, s_{t-1}), c_t from s_t; answer_t = tanh(W [s_t, c_t])                  (Luong et al. 2015)
        'input'    the same with s_t = cell([e_t, answer_{t-1}], s_{t-1}): input feeding                  (the same, section 3.3)
    attention, value_width, hard: see `nn.Attention`; attention may be a module with its calls.
    copy: a token is also copied from the source, with the weights of the attention, as often as a learned gate says (See et al.
        2017, equation 9); needs one vocabulary for both sides. What is returned are log-probabilities then.
    bidirectional: the encoder reads both ways. encoder_width: of each way; 0: width. embedding: its width; 0: width.
    encoder, decoder: stacks of recurrent layers; None: those of cell, width, depth and the like.
    tie: output weights are those of the target's embedding. dropout acts on embeddings, between layers and on the answer.

    For decoding, one step at a time, for k hypotheses of every row: `begin` and `step`.
    """

    vocabulary: int
    target_vocabulary: int = 0
    shared: bool = False

    cell: str = 'gru'
    width: int = 256
    depth: int = 1
    embedding: int = 0
    encoder_width: int = 0
    bidirectional: bool = False
    context: str = 'attention'
    feed: str = 'state'
    attention: str | linen.Module = 'additive'
    value_width: int = 0
    hard: bool = False
    copy: bool = False
    tie: bool = False
    dropout: float = 0.0
    dtype: str = 'float32'
    encoder: nn.Recurrent | None = None
    decoder: nn.Recurrent | None = None

    output_kinds = ('target_token',)

    def __post_init__(self):
        super().__post_init__()
        from_config.check_seq2seq(self)

    def setup(self):
        dtype, mapped = jnp.dtype(self.dtype), linen.initializers.lecun_normal()
        V, D, R = self.target_vocabulary or self.vocabulary, self.embedding or self.width, self._answer_width
        table = lambda size: nn.Embedding(size, D, linen.initializers.normal(D ** -0.5), dtype)
        self.drop = linen.Dropout(self.dropout)
        self.target_embedding = table(V)
        self.source_embedding = self.target_embedding if self.shared else table(self.vocabulary)
        self.encoding, self.decoding = from_config.recurrent_stacks(self)
        if self.context != 'last':
            first = jax.eval_shape(lambda: self.decoding.zero_state(1))
            self.bridge = [[nn.Projection(part.shape[1:], ('embed', 'hidden'), kernel_init=mapped) for part in layer]
                           for layer in first]
        if self.context == 'attention':
            self.lookup = from_config.attention(self)
        if self._has_context:
            self.readout = nn.Projection((R,), ('hidden', 'embed'), kernel_init=mapped, dtype=dtype)
        if self.copy:
            self.gate = nn.Projection((1,), ('embed', None), kernel_init=mapped, dtype=dtype)
        if not self.tie:
            self.output = nn.Projection((V,), ('embed', 'vocab'), kernel_init=linen.initializers.normal(R ** -0.5), dtype=dtype)

    def __call__(self, inputs, lengths=None, targets=None, *, previous=None, train=False):
        """previous: [B, T], what the decoder reads instead of START and all targets but the last. targets None: one step."""
        answers, weights, memory = self._write(inputs, lengths, targets, previous, train)
        return self._score(answers, weights, memory)

    def align(self, inputs, lengths, targets):
        """[B, T, S]: where the decoder looks as it writes the targets."""
        return self._write(inputs, lengths, targets, None, False)[1]

    def begin(self, inputs, lengths=None, max_length=None, *, train=False):
        """(Memory, DecoderState) after reading source tokens [B, S], row b only up to lengths[b]."""
        del max_length  # its state has the same size however long the answer
        B, S = inputs.shape
        lengths = jnp.full(B, S) if lengths is None else lengths
        outputs, final = self.encoding(self._embed(self.source_embedding, inputs, train), lengths, train=train)
        mean = ops.mean_step(outputs, lengths)
        keys, values = self.lookup.read(outputs) if self.context == 'attention' else (None, None)
        state = DecoderState(self._first_layers(final, mean), jnp.zeros((B, self._answer_width), outputs.dtype),
                             jnp.zeros((B, S), jnp.float32))
        return Memory(inputs, ops.valid_steps(lengths, S), keys, values, mean), state

    def step(self, memory, state, tokens):
        """Reads one token of each of N = B k hypotheses, those of a row next to each other: (state, logits [N, V])."""
        state = self._advance(memory, state, self.target_embedding(tokens), train=False)
        scores = self._score(_by_row(state.answer, memory), _by_row(state.weights, memory), memory)
        return state, scores.reshape(len(tokens), -1)

    @linen.nowrap
    def attended(self, state):
        """[N, S]: where the step that led to this state looked; None without attention."""
        return state.weights if self.context == 'attention' else None

    # ------------------------------------------------------------------------------------------------ the decoder

    def _write(self, inputs, lengths, targets, previous, train):
        """(answers [B, T, R], weights [B, T, S] or None, Memory) of a decoder that is given what came before."""
        targets = jnp.zeros((len(inputs), 1), jnp.int32) if targets is None else targets
        if previous is None:
            previous = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=START)
        memory, state = self.begin(inputs, lengths, train=train)
        x = self._embed(self.target_embedding, previous, train)  # [B, T, D]
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
                h, _ = self.decoding(_joined(x, context), None, state.layers, train=train)
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
            inner = _joined(x, context)
        elif self._has_context and self.feed == 'input':
            inner = _joined(x, state.answer)
        h, layers = self.decoding(inner[:, None], None, state.layers, train=train)
        h = h[:, 0]
        if not self._has_context or self.feed != 'state':
            context, weights = look(h)
        return layers, h, context, weights

    def _context(self, memory, queries):
        """(contexts [B, Q, E], weights [B, Q, S] or None) of queries [B, Q, N]; (None, None) where there is no context."""
        if self.context == 'attention':
            return self.lookup(queries.astype(self.dtype), memory.keys, memory.values, memory.mask)
        if self.context == 'mean_each':
            return jnp.broadcast_to(memory.mean[:, None], (*queries.shape[:2], memory.mean.shape[-1])), None
        return None, None

    def _answer(self, h, context, x):
        """What the output sees, [..., R]."""
        if context is None:
            return h
        return jnp.tanh(self.readout(_joined(h, context, x) if self.feed == 'state' else _joined(h, context)))

    def _score(self, answers, weights, memory):
        """Logits [B, Q, V] of answers [B, Q, R]; with copy log-probabilities."""
        logits = self.target_embedding.attend(answers) if self.tie else self.output(answers)
        if not self.copy:
            return logits
        own = jax.nn.sigmoid(self.gate(answers).astype(jnp.float32))  # [B, Q, 1]
        rows, V = jnp.arange(len(answers))[:, None], logits.shape[-1]
        copied = jnp.zeros((len(answers), V, answers.shape[1])).at[rows, memory.tokens].add(weights.swapaxes(1, 2))
        mixed = own * jax.nn.softmax(logits.astype(jnp.float32)) + (1 - own) * copied.swapaxes(1, 2)
        return jnp.log(jnp.maximum(mixed, jnp.finfo(jnp.float32).tiny))

    def _first_layers(self, final, mean):
        """The decoder's first state, from the encoder's last one or from the mean of its outputs."""
        if self.context == 'last':
            return final
        if self.encoding.bidirectional:
            final = [[_joined(*ways) for ways in zip(*layer)] for layer in final]
        return tuple(tuple(jnp.tanh(bridge((mean if self.context == 'mean' else part).astype(jnp.float32)))
                           for bridge, part in zip(bridges, layer)) for bridges, layer in zip(self.bridge, final))

    def _embed(self, table, tokens, train):
        return self.drop(table(tokens), deterministic=not train)

    @property
    def _has_context(self):
        """Whether every step is told something of the source."""
        return self.context in ('mean_each', 'attention')

    @property
    def _answer_width(self):
        """R. An embedding that is the output too decides it, otherwise it is that of the state."""
        if self._has_context:
            return self.embedding or self.width
        return from_config.recurrent_stacks(self, parent=None)[1].output_width


def _over_time(step):
    """`step(model, carry, x)` for every step of axis 1, with the same parameters."""
    return linen.scan(step, variable_broadcast='params', split_rngs={'params': False, 'dropout': True}, in_axes=1, out_axes=1)


def _joined(*arrays):
    return jnp.concatenate([array.astype(arrays[0].dtype) for array in arrays], axis=-1)


def _by_row(array, memory):
    """[B k, ...] -> [B, k, ...]"""
    return array.reshape(len(memory.tokens), -1, array.shape[-1])
