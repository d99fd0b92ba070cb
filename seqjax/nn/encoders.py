"""Encoders: what reads a sequence, step by step or all at once. All of them, and `ConvolutionalEncoder`, have one call:

    outputs, last = encoder(x, lengths, segments=None, train=False)

x: [B, T, D]. lengths: [B], or None where every row has T steps. outputs: [B, T, M], zero past a row's length. last: [B, M],
what the encoder knows at the end of the row. A row of no steps gives zeros. segments: [B, T] or None; where the number
changes along a row another sequence begins, and is read as if it had a row of its own (`last` is then of no use).
"""

from flax import linen as nn
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.nn.projection import Projection
from seqjax.nn.recurrent import Recurrent
from seqjax.nn.transformer import Block, FeedForward, SelfAttention, check_sizes, layer_norm


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
            x = Projection((self.width,), (None, 'embed'), kernel_init=nn.initializers.lecun_normal(), dtype=self.dtype,
                           name='input')(x)
        if self.positions:
            positions = ops.sinusoidal_positions(T, self.width).astype(self.dtype)
            x = x + (positions if segments is None else positions[ops.steps_of_segments(segments)])
        mask = jnp.ones((1, 1, 1, T), bool) if lengths is None else ops.valid_steps(lengths, T)[:, None, None]
        mask = mask & ops.causal_mask(T) if self.causal else mask  # [B, 1, T or 1, S]
        mask = mask if segments is None else mask & ops.same_segment(segments)
        # 2 * depth projections add to the residual stream; their scale keeps its variance at 1 (GPT-2, section 2.3).
        out_init = nn.initializers.normal(0.02 / (2 * self.depth) ** 0.5)
        part = dict(dropout=self.dropout, bias=True, dtype=self.dtype, out_init=out_init, parent=None)  # the block's
        for layer in range(self.depth):
            block = Block(SelfAttention(self.heads, **part), FeedForward(**part), True, self.dtype, name=f'block_{layer}')
            x, _ = block(x, mask=mask, train=train)
        x = ops.mask_steps(layer_norm(True, self.dtype, 'norm')(x), lengths)
        return x, ops.last_step(x, lengths)
