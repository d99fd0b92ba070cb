"""The Transformer's block, and stacks of blocks.

Shapes: B rows, T steps, S steps of a source, D width, L layers.
"""

from collections.abc import Callable

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax.errors import FieldError
from seqjax.nn.multi_head import Where

ORDERS = ('pre', 'post')


def check_sizes(model):
    """Refuses a width, a depth and heads that make no Transformer."""
    for field in ('width', 'depth', 'heads'):
        if getattr(model, field) < 1:
            raise FieldError(field, getattr(model, field), 'must be at least 1')
    if not getattr(model, 'head_width', 0) and model.width % model.heads:
        fits = [n for n in range(1, model.width + 1) if model.width % n == 0 and n <= 4 * model.heads]
        raise FieldError('heads', model.heads, f'must divide width={model.width}; {", ".join(map(str, fits))} would')


class Block(nn.Module):
    """Attention, attention to a source where there is one, and a feed-forward network, each added to what it reads:

        'pre'     x + layer(norm(x))      (Xiong et al. 2020; GPT-2, T5, Llama)
        'post'    norm(x + layer(x))      (Vaswani et al. 2017; BERT)

    attention, cross, feed_forward: layers, see `MultiHeadAttention`, `CrossAttention`, `FeedForward`; any others with their calls
    will do. norm(name=...) makes a norm. dropout: on what every layer says, before it is added.
    """

    attention: nn.Module
    feed_forward: nn.Module
    norm: Callable[..., nn.Module]
    cross: nn.Module | None = None
    order: str = 'pre'
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, where=Where(), cache=None, memory=None, *, look=False, train=False):
        """([B, T, D], cache, weights of the cross-attention [B, T, S] where `look`, or None)."""
        def add(name, layer):
            nonlocal x
            norm, drop = self.norm(name=f'{name}_norm'), nn.Dropout(self.dropout, deterministic=not train)
            y, result = layer(norm(x) if self.order == 'pre' else x)
            x = x + drop(y)
            x = x if self.order == 'pre' else norm(x)
            return result

        weights = None
        cache = add('attention', lambda x: self.attention(x, where, cache, train=train))
        if self.cross is not None:
            weights = add('cross', lambda x: self.cross(x, memory, where, look=look, train=train))
        add('feed_forward', lambda x: (self.feed_forward(x, train=train), None))
        return x, cache, weights


class Stack(nn.Module):
    """L blocks one after another, and a last norm where they are 'pre'.

        stack(x, where)                                   x [B, T, D] -> ([B, T, D], None, None)
        stack(x, where, caches, memories, look=True)      -> ([B, T, D], caches, weights [B, T, S], their mean over the layers)

    make_block(name=...) makes a block; blocks are block_0, block_1, ... scan: they are one block, compiled once, whose
    parameters have a leading axis of L, and whose caches and memories have it second, after the rows. remat: what is inside a block
    is computed again in the backward pass and not stored. Caches and memories are tuples with one for each layer otherwise.
    """

    make_block: Callable[..., Block]
    depth: int
    norm: Callable[..., nn.Module] | None = None
    scan: bool = False
    remat: bool = False

    def setup(self):
        if self.scan:
            self.blocks = self.make_block(name='blocks')
        else:
            self.blocks = [self.make_block(name=f'block_{layer}') for layer in range(self.depth)]
        self.last_norm = self.norm(name='norm') if self.norm else None

    def __call__(self, x, where=Where(), caches=None, memories=None, *, look=False, train=False):
        def run(block, x, cache, memory):
            x, cache, weights = block(x, where, cache, memory, look=look, train=train)
            return x, (cache, weights)

        run = nn.remat(run, prevent_cse=not self.scan) if self.remat else run
        if self.scan:
            layers = nn.scan(lambda block, x, layer: run(block, x, *layer), variable_axes={'params': 0, 'penalties': 0},
                             split_rngs={'params': True, 'dropout': True}, in_axes=1, out_axes=1, length=self.depth,
                             metadata_params={nn.PARTITION_NAME: 'layers'})
            x, (caches, weights) = layers(self.blocks, x, (caches, memories))
            weights = None if weights is None else weights.mean(axis=1)
        else:
            none = (None,) * self.depth
            x, caches, weights = self._one_by_one(run, x, caches or none, memories or none)
        return self.last_norm(x) if self.last_norm else x, caches, weights

    def _one_by_one(self, run, x, caches, memories):
        kept, looks = [], []
        for block, cache, memory in zip(self.blocks, caches, memories):
            x, (cache, weights) = run(block, x, cache, memory)
            kept.append(cache)
            looks.append(weights)
        return x, None if kept[0] is None else tuple(kept), None if looks[0] is None else sum(looks) / len(looks)

    def read(self, outputs):
        """The memories of all layers: keys and values of what another stack has said [B, S, E]."""
        if not self.scan:
            return tuple(block.cross.read(outputs) for block in self.blocks)
        read = nn.scan(lambda block, _, __: (None, block.cross.read(outputs)), variable_axes={'params': 0},
                       split_rngs={'params': True}, in_axes=1, out_axes=1, length=self.depth,
                       metadata_params={nn.PARTITION_NAME: 'layers'})
        return read(self.blocks, None, None)[1]

    @nn.nowrap
    def empty_caches(self, rows, slots):
        """Caches of all layers with room for so many steps."""
        cache = self.make_block(parent=None).attention.empty_cache(rows, slots)
        if not self.scan:
            return (cache,) * self.depth
        return jax.tree.map(lambda x: jnp.repeat(x[:, None], self.depth, axis=1), cache)
