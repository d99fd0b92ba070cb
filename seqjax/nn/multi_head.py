"""Attention with many heads, as layers: among the steps of a row, to what another stack has said, and in linear time.

Shapes: B rows, T new steps, S steps that are looked at, D width, H heads of queries, G heads of keys and values, K head width.
"""

import dataclasses

from flax import linen as nn, struct
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.projection import Projection, fan_in


@struct.dataclass
class Context:
    """What every layer of a stack is told of the T steps that it sees; a kind of layer reads what it needs of it.

    mask: an `ops.Mask`, the attention mask. bias: [H, 2 S - 1], added to scores by distance. steps: [T] or [B, T], where they
    stand in their text, for rotary positions. position: [B], how many steps the caches hold. lengths: [B], how many of the new
    steps count, with a state; None: all. pages: [B, P], where caches in pages have the steps of a row; None: they have a row of
    slots for each. source: an `ops.Mask` over the encoder outputs. segments: [B, T], for layers with a state that is no cache:
    where their number changes a new text begins. layer: the number of the layer in its stack, from 0. look: cross-attention
    returns its weights.
    """

    mask: ops.Mask = ops.Mask()
    bias: jax.Array | None = None
    steps: jax.Array | None = None
    position: jax.Array | None = None
    lengths: jax.Array | None = None
    pages: jax.Array | None = None
    source: ops.Mask = ops.Mask()
    segments: jax.Array | None = None
    layer: int | jax.Array = 0
    look: bool = struct.field(default=False, pytree_node=False)


class MultiHeadAttention(nn.Module):
    """Attention among the steps of a row (Vaswani et al. 2017, section 3.2.2).

        attention(x, context)             x [B, T, D]: whole rows from their first step on -> ([B, T, D], None)
        attention(x, context, cache)      x goes on with row b at step context.position[b] -> ([B, T, D], cache)

    A cache is (keys, values), each [B, S, G, K]; what would be written past its end is dropped, so the caller keeps
    position + T <= S. In pages (Kwon et al. 2023, section 4.1) it is one store for all rows, [N, Z, G, K], N pages of Z slots:
    context.pages[b] has the numbers of row b's, one after another, and N where there is none.

    kv_heads: G, fewer heads of keys and values that groups of queries share (Shazeer 2019 for one, Ainslie et al. 2023); 0: H.
    head_width: 0: D / H. rotary: the base of rotary positions; 0: none; rotary_scaling: see `ops.rotate`.
    scale: of the scores; None: 1 / sqrt(K). inverse_layer_scale: scores of layer l are divided by l + 1, too (GPT-2's
    `scale_attn_by_inverse_layer_idx`). dropout: on the weights.
    """

    width: int
    heads: int
    kv_heads: int = 0
    head_width: int = 0
    rotary: float = 0.0
    rotary_scaling: tuple = ()
    scale: float | None = None
    dropout: float = 0.0
    bias: bool = False
    dtype: jnp.dtype = jnp.float32
    kernel_init: nn.initializers.Initializer = fan_in()
    query_init: nn.initializers.Initializer | None = None  # None: kernel_init
    out_init: nn.initializers.Initializer = fan_in(2)
    inverse_layer_scale: bool = False

    has_slots = True  # its state has one for every position

    def setup(self):
        H, G, K = self.heads, self._key_heads, self._head_width
        same = dict(bias=self.bias, dtype=self.dtype)
        self.query = Projection((H, K), ('embed', 'heads', None), kernel_init=self.query_init or self.kernel_init, **same)
        self.key, self.value = (Projection((G, K), ('embed', 'heads', None), kernel_init=self.kernel_init, **same) for _ in range(2))
        self.out = Projection((self.width,), ('heads', None, 'embed'), contract=2, kernel_init=self.out_init, **same)

    def __call__(self, x, context=Context(), cache=None, *, train=False):
        query, (key, value) = self.query(x), self.read(x)
        if self.rotary:
            query, key = (ops.rotate(part, context.steps, self.rotary, self.rotary_scaling) for part in (query, key))
        if self.inverse_layer_scale:
            query = query / jnp.asarray(context.layer + 1, query.dtype)
        if cache is None:
            return self.out(self._attend(query, key, value, context.mask, context.bias, train)), None
        cache = tuple(_written(old, new, context) for old, new in zip(cache, (key, value)))
        mask = dataclasses.replace(context.mask, start=context.position)
        seen = cache if context.pages is None else (_in_order(part, context.pages) for part in cache)
        return self.out(self._attend(query, *seen, mask, context.bias, train)), cache

    def read(self, x):
        """(keys, values) of x, [B, S, G, K] each."""
        return self.key(x), self.value(x)

    @nn.nowrap
    def empty_state(self, rows, slots):
        """A cache with room for so many steps."""
        empty = jnp.zeros((rows, slots, self._key_heads, self._head_width), self.dtype)
        return empty, empty

    def _attend(self, query, key, value, mask, bias, train):
        dropout = self.dropout if train else 0.0
        return ops.attend(query, key, value, mask, bias=bias, scale=self.scale, dropout=dropout,
                          dropout_key=self.make_rng('dropout') if dropout else None)

    @property
    def _key_heads(self):
        return self.kv_heads or self.heads

    @property
    def _head_width(self):
        return self.head_width or self.width // self.heads


class CrossAttention(MultiHeadAttention):
    """Attention to what another stack has said: keys and values are made of it once, by `read`.

    A row of the memory may have k rows of x, next to each other, as the hypotheses of a beam have.
    """

    def __call__(self, x, context=Context(), memory=None, *, train=False):
        """([N, T, D], mean weights [N, T, S] where context.look, or None). x: [N, T, D], memory: (keys, values), B rows each."""
        (N, T, _), rows = x.shape, len(memory[0])
        query = self.query(x).reshape(rows, -1, self.heads, self._head_width)  # [B, k T, H, K]
        y = self._attend(query, *memory, context.source, None, train)
        weights = self._weights(query, memory[0], context.source).reshape(N, T, -1) if context.look else None
        return self.out(y.reshape(N, T, *y.shape[2:])), weights

    @nn.nowrap
    def empty_state(self, rows, slots):
        """None: its memory comes from `read`."""

    def _weights(self, query, key, mask):
        """[B, T, S]: the mean of the weights over the heads."""
        B, T, H, K = query.shape
        grouped = query.reshape(B, T, key.shape[2], -1, K)
        scores = jnp.einsum('btgrk,bsgk->bgrts', grouped, key, preferred_element_type=jnp.float32).reshape(B, H, T, -1)
        scale = K ** -0.5 if self.scale is None else self.scale
        return ops.soft_weights(scores * scale, mask.dense(T, key.shape[1])).mean(axis=1)


class LinearAttention(MultiHeadAttention):
    """The same with weights that are products of features (`ops.linear_attend`): its cost grows with T and not with T^2.

    Its cache is one matrix a head, however long the text. It has no place for a bias of scores, a
    scale, rotary positions or dropout of weights.
    """

    has_slots = False

    def __call__(self, x, context=Context(), cache=None, *, train=False):
        query, (key, value) = self.query(x), self.read(x)
        if cache is None:
            return self.out(ops.linear_attend(query, key, value, context.mask)), None
        cache, y = ops.linear_attend_step(cache, query, key, value, lengths=context.lengths)
        return self.out(y), cache

    @nn.nowrap
    def empty_state(self, rows, slots):
        del slots  # the state is as large as ever
        return ops.linear_state(rows, self._key_heads, self._head_width, self._head_width)


def _written(old, new, context):
    """A part of a cache with new steps [B, T, G, K] from context.position[b] on."""
    rows, slots = jnp.arange(len(new))[:, None], context.position[:, None] + jnp.arange(new.shape[1])  # [B, 1], [B, T]
    if context.pages is not None:
        size = old.shape[1]
        rows, slots = context.pages.at[rows, slots // size].get(mode='fill', fill_value=len(old)), slots % size
    return old.at[rows, slots].set(new, mode='drop')


def _in_order(part, pages):
    """[B, P Z, G, K]: the steps of every row, out of a part of a cache in pages. Where there is no page there is anything."""
    return part.at[pages].get(mode='clip').reshape(len(pages), -1, *part.shape[2:])
