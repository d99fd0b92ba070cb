"""Encoders: what reads a sequence, step by step or all at once. All of them, and `ConvolutionalEncoder`, have one call:

    outputs, last = encoder(x, lengths, segments=None, train=False)

x: [B, T, D]. lengths: [B], or None where every row has T steps. outputs: [B, T, M], zero past a row's length. last: [B, M],
what the encoder knows at the end of the row. A row of no steps gives zeros. segments: [B, T] or None; where the number
changes along a row another sequence begins, and is read as if it had a row of its own (`last` is then of no use).
"""

import functools

from flax import linen as nn
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.nn.feed_forward import FeedForward
from seqjax.nn.multi_head import MultiHeadAttention, Context
from seqjax.nn.norms import layer_norm
from seqjax.nn.projection import Projection, fan_in
from seqjax.nn.recurrent import Recurrent
from seqjax.nn.transformer import Block, Stack, check_sizes


class RecurrentEncoder(nn.Module):
    """A stack of recurrent layers: `RecurrentEncoder(nn.LSTM(64, num_layers=2, bidirectional=True))`.

    Of two directions `last` is both where each of them has read the whole row: forward at its end, backward at its start.
    """

    stack: Recurrent

    def __post_init__(self):
        super().__post_init__()
        if self.stack.bidirectional and self.stack.merge != 'concat':
            raise FieldError('merge', self.stack.merge, "the two directions end at different steps; write 'concat'")

    def __call__(self, x, lengths=None, *, segments=None, train=False):
        outputs, _ = self.stack(x, lengths, segments=segments, train=train)
        if not self.stack.bidirectional:
            return outputs, ops.last_step(outputs, lengths)
        forward, backward = jnp.split(outputs, 2, axis=-1)
        return outputs, jnp.concatenate((ops.last_step(forward, lengths), backward[:, 0]), axis=-1)


class AttentionEncoder(nn.Module):
    """A Transformer's encoder, pre-norm, over inputs to which sinusoidal positions are added (Vaswani et al. 2017).

    causal: a step looks at itself and the past; otherwise at the whole row. positions: False leaves them out, and the order
    of the steps makes no difference. Inputs of another width are projected. dropout acts on both branches of every block.
    """

    width: int
    depth: int = 1
    heads: int = 4
    causal: bool = False
    positions: bool = True
    dropout: float = 0.0
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        check_sizes(self)
        if self.positions and self.width % 2:
            raise FieldError('width', self.width, 'must be even for attention: positions are pairs of a sine and a cosine')

    @nn.compact
    def __call__(self, x, lengths=None, *, segments=None, train=False):
        x, T = ops.mask_steps(x, lengths).astype(self.dtype), x.shape[1]
        if x.shape[-1] != self.width:
            x = Projection((self.width,), (None, 'embed'), kernel_init=fan_in(), dtype=self.dtype, name='input')(x)
        if self.positions:
            steps = jnp.arange(T) if segments is None else ops.steps_of_segments(segments)
            x = x + ops.sinusoidal_positions(steps, self.width).astype(self.dtype)
        stack = Stack(self._block(), self.depth, functools.partial(layer_norm, True, self.dtype), name='stack')
        mask = ops.Mask(causal=self.causal, lengths=lengths, segments=segments)
        x = ops.mask_steps(stack(x, Context(mask), train=train)[0], lengths)
        return x, ops.last_step(x, lengths)

    def _block(self):
        # 2 * depth projections add to the residual stream; their scale keeps its variance at 1 (GPT-2, section 2.3).
        into = functools.partial(fan_in, variance=1 / (2 * self.depth))
        part = dict(bias=True, dtype=self.dtype, parent=None)
        return Block(MultiHeadAttention(self.width, self.heads, out_init=into(2), **part), FeedForward(out_init=into(), **part),
                     functools.partial(layer_norm, True, self.dtype), dropout=self.dropout, parent=None)
