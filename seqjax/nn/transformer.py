"""The Transformer block: self-attention, with or without a cache of the steps already seen, and the feed-forward layer.

Shapes: B batch, T new steps, S cache slots, D width, H heads, K head width, F feed-forward width.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.nn.projection import Projection, partitioned


class LayerNorm(nn.LayerNorm):
    """flax's, which mixes bfloat16 with its float32 statistics also where jax_numpy_dtype_promotion='strict'."""

    def __call__(self, x):
        with jax.numpy_dtype_promotion('standard'):
            return super().__call__(x)


def layer_norm(bias, dtype, name=None):
    """flax's LayerNorm with named axes; statistics in float32."""
    return LayerNorm(
        epsilon=1e-5, use_bias=bias, dtype=dtype, name=name,
        scale_init=partitioned(nn.initializers.ones, ('embed',)), bias_init=partitioned(nn.initializers.zeros, ('embed',)))


def check_sizes(model):
    """Refuses a width, a depth and heads that make no Transformer."""
    for field in ('width', 'depth', 'heads'):
        if getattr(model, field) < 1:
            raise FieldError(field, getattr(model, field), 'must be at least 1')
    if model.width % model.heads:
        fits = [n for n in range(1, model.width + 1) if model.width % n == 0 and n <= 4 * model.heads]
        raise FieldError('heads', model.heads, f'must divide width={model.width}; {", ".join(map(str, fits))} would')


class SelfAttention(nn.Module):
    """Multi-head attention among the steps of a row: to the present and the past, or to where `mask` says.

    Without a cache x holds whole rows from their first step on, and a mask that broadcasts to [B, H, T, T], True where a
    step may look, takes the place of the causal one. With a cache, x [B, T, D] continues row b at step
    `position[b]`: its keys and values are written to the cache's slots and it looks at every slot up to its own.
    A cache is (keys, values), each [B, S, H, K]; slots past the end are dropped, so the caller keeps position + T <= S.
    """

    heads: int
    dropout: float = 0.0
    bias: bool = False
    dtype: jnp.dtype = jnp.float32
    out_init: nn.initializers.Initializer = nn.initializers.normal(0.02)

    @nn.compact
    def __call__(self, x, cache=None, position=None, *, mask=None, train=False):
        B, T, D = x.shape
        H, K = self.heads, D // self.heads
        qkv = Projection((3, H, K), ('embed', None, 'heads', None), bias=self.bias, dtype=self.dtype, name='qkv')(x)
        query, key, value = jnp.moveaxis(qkv, 2, 0)  # each [B, T, H, K]
        if cache is None:
            mask = ops.causal_mask(T) if mask is None else mask
        else:
            rows, slots = jnp.arange(B)[:, None], position[:, None] + jnp.arange(T)  # [B, 1], [B, T]
            key, value = cache = tuple(old.at[rows, slots].set(new, mode='drop') for old, new in zip(cache, (key, value)))
            mask = (jnp.arange(key.shape[1]) <= slots[..., None])[:, None]  # [B, 1, T, S]
        y = ops.attend(query, key, value, mask)  # [B, T, H, K]
        y = Projection((D,), ('heads', None, 'embed'), contract=2, bias=self.bias, dtype=self.dtype,
                       kernel_init=self.out_init, name='out')(y)
        return nn.Dropout(self.dropout, deterministic=not train)(y), cache


class FeedForward(nn.Module):
    """W2 gelu(W1 x), step by step, with F = 4 D."""

    dropout: float = 0.0
    bias: bool = False
    dtype: jnp.dtype = jnp.float32
    out_init: nn.initializers.Initializer = nn.initializers.normal(0.02)

    @nn.compact
    def __call__(self, x, *, train=False):
        D = x.shape[-1]
        y = Projection((4 * D,), ('embed', 'mlp'), bias=self.bias, dtype=self.dtype, name='in')(x)  # [B, T, F]
        y = jax.nn.gelu(y, approximate=False)
        y = Projection((D,), ('mlp', 'embed'), bias=self.bias, dtype=self.dtype, kernel_init=self.out_init, name='out')(y)
        return nn.Dropout(self.dropout, deterministic=not train)(y)


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)): pre-norm (Xiong et al. 2020)."""

    attention: nn.Module
    feed_forward: nn.Module
    bias: bool = False
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, cache=None, position=None, *, mask=None, train=False):
        y, cache = self.attention(layer_norm(self.bias, self.dtype, 'attention_norm')(x), cache, position, mask=mask,
                                  train=train)
        x = x + y
        return x + self.feed_forward(layer_norm(self.bias, self.dtype, 'feed_forward_norm')(x), train=train), cache
