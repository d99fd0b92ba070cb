"""Residual blocks of layers, the Transformer's among them, and stacks of blocks.

Shapes: B rows, T steps, S steps of a source, D width, L layers.
"""

from collections.abc import Callable

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, check_at_least
from seqjax.nn.multi_head import Context

NORM_POSITIONS = ('pre', 'post')


def check_sizes(model):
    """Refuses a width, a depth and heads that make no Transformer."""
    check_at_least(model, 1, 'width', 'depth', 'heads')
    if not getattr(model, 'head_width', 0) and model.width % model.heads:
        fits = [n for n in range(1, model.width + 1) if model.width % n == 0 and n <= 4 * model.heads]
        raise FieldError('heads', model.heads, f'must divide width={model.width}; {", ".join(map(str, fits))} would')


def maker(part: Callable[..., nn.Module] | nn.Module | None) -> Callable[..., nn.Module] | None:
    """A function that makes modules: `part`, or one that copies it where it is a module."""
    return part.copy if isinstance(part, nn.Module) else part


class ResidualBlock(nn.Module):
    """Layers one after another, each added to its input:

        'pre'     x + layer(norm(x))      (Xiong et al. 2020; GPT-2, T5, Llama, Mamba)
        'post'    norm(x + layer(x))      (Vaswani et al. 2017; BERT)

    A subclass names its `layers`, has a field for each of them (None: there is none) and the field
    `norm`, where norm(name=...) makes a norm. dropout: on the output of every layer, before it is
    added. A layer has a state, and the method `empty_state`, or it has neither:

        layer(x, context, state, train=False)    x [B, T, D] -> ([B, T, D], state)
        layer.empty_state(rows, slots)           the state before the first position
        layer(x, train=False)                    x [B, T, D] -> [B, T, D]

    A state is a KV cache with room for `slots` positions, or of one size. context: a `Context`.
    """

    layers = ()
    norm_position = 'pre'
    dropout = 0.0

    def __post_init__(self):
        object.__setattr__(self, 'norm', maker(self.norm))
        super().__post_init__()

    @nn.compact
    def __call__(self, x, context=Context(), states=None, *, train=False):
        """([B, T, D], states), one for each layer. states None: whole rows, without KV caches."""
        layers, kept = self._present(), []
        for (name, layer), state in zip(layers, states or (None,) * len(layers)):
            norm = self.norm(name=f'{name}_norm')
            y = norm(x) if self.norm_position == 'pre' else x
            if _has_state(layer):
                y, state = layer(y, context, state, train=train)
            else:
                y, state = layer(y, train=train), None
            x = x + self.branch(name, y, context, train)
            x = ops.constrain(x if self.norm_position == 'pre' else norm(x), 'batch', ..., 'embed')
            kept.append(state)
        return x, tuple(kept)

    def branch(self, name, y, context, train):
        """What the layer of that name adds to its input, from its output y: y after dropout."""
        return nn.Dropout(self.dropout, deterministic=not train)(y)

    @nn.nowrap
    def empty_states(self, rows, slots=0):
        """The states of its layers before the first position."""
        return tuple(layer.empty_state(rows, slots) if _has_state(layer) else None
                     for _, layer in self._present())

    @property
    def rewinds(self):
        """Whether all its states are KV caches, so that one can go back, or keep them in pages."""
        states = [layer for _, layer in self._present() if _has_state(layer)]
        return bool(states) and all(getattr(layer, 'has_slots', False) for layer in states)

    @nn.nowrap
    def _present(self):
        layers = [(name, getattr(self, name)) for name in self.layers]
        return [(name, layer) for name, layer in layers if layer is not None]


def _has_state(layer):
    return hasattr(layer, 'empty_state')


class Block(ResidualBlock):
    """The Transformer's: attention, cross-attention to an encoder, and a feed-forward network.

    attention, cross, feed_forward: see `MultiHeadAttention`, `CrossAttention`, `FeedForward`; any
    other layers with their calls will do. The states are (KV cache, memory, None), or without
    cross-attention (KV cache, None); cross-attention takes its memory (keys, values) as a state and
    gives back its weights [B, T, S] where context.look, or None.
    """

    attention: nn.Module
    feed_forward: nn.Module
    norm: Callable[..., nn.Module] | nn.Module
    cross: nn.Module | None = None
    norm_position: str = 'pre'
    dropout: float = 0.0

    layers = ('attention', 'cross', 'feed_forward')


class Stack(nn.Module):
    """L blocks one after another, and a last norm.

        stack(x, context)                                  x [B, T, D] -> ([B, T, D], states)
        stack(x, context, stack.empty_states(B, slots))    states go on in the next call

    block: a block, of which each layer has a copy, or a function: block(name=...) makes one; their
    names are block_0, block_1, ... norm: the same for the last norm; None: there is none. scan_layers:
    blocks are one block, compiled once, whose parameters have a leading axis of L, and whose states
    have it second, after the rows; otherwise states are a tuple with those of each block. remat:
    gradient checkpointing, activations inside a block are computed again in the backward pass.
    """

    block: Callable[..., nn.Module] | nn.Module
    depth: int
    norm: Callable[..., nn.Module] | nn.Module | None = None
    scan_layers: bool = False
    remat: bool = False

    def __post_init__(self):
        object.__setattr__(self, 'block', maker(self.block))
        object.__setattr__(self, 'norm', maker(self.norm))
        super().__post_init__()

    def setup(self):
        if self.scan_layers:
            self.blocks = self.block(name='blocks')
        else:
            self.blocks = [self.block(name=f'block_{layer}') for layer in range(self.depth)]
        self.last_norm = self.norm(name='norm') if self.norm else None

    def __call__(self, x, context=Context(), states=None, *, train=False):
        """([B, T, D], states)"""
        def run(block, x, state, layer):
            return block(x, context.replace(layer=layer), state, train=train)

        run = nn.remat(run, prevent_cse=not self.scan_layers) if self.remat else run
        if self.scan_layers:
            layers = nn.scan(
                run, variable_axes={'params': 0, 'penalties': 0}, in_axes=(1, 0), out_axes=1,
                split_rngs={'params': True, 'dropout': True}, length=self.depth,
                metadata_params={nn.PARTITION_NAME: 'layers'})
            x, states = layers(self.blocks, x, states, jnp.arange(self.depth))
        else:
            kept = []
            states = states or (None,) * self.depth
            for layer, (block, state) in enumerate(zip(self.blocks, states)):
                x, state = run(block, x, state, layer)
                kept.append(state)
            states = tuple(kept)
        return self.last_norm(x) if self.last_norm else x, states

    def read(self, outputs):
        """The memories of all layers: keys and values of encoder outputs [B, S, E]."""
        if not self.scan_layers:
            return tuple(block.cross.read(outputs) for block in self.blocks)
        read = nn.scan(lambda block, _, __: (None, block.cross.read(outputs)), variable_axes={'params': 0},
                       split_rngs={'params': True}, in_axes=1, out_axes=1, length=self.depth,
                       metadata_params={nn.PARTITION_NAME: 'layers'})
        return read(self.blocks, None, None)[1]

    @nn.nowrap
    def empty_states(self, rows, slots=0):
        """The states of all layers before the first position; KV caches with room for so many."""
        empty = self.block(parent=None).empty_states(rows, slots)
        if not self.scan_layers:
            return (empty,) * self.depth
        return jax.tree.map(lambda x: jnp.repeat(x[:, None], self.depth, axis=1), empty)

    @property
    def rewinds(self):
        """See `ResidualBlock.rewinds`."""
        return getattr(self.block(parent=None), 'rewinds', False)

    @nn.nowrap
    def by_kind(self, states):
        """All states, one tuple for each kind of layer in a block: the inverse of `by_block`."""
        return states if self.scan_layers else tuple(zip(*states))

    @nn.nowrap
    def by_block(self, *kinds):
        """All states, from those of each kind of layer in a block; None: it has none."""
        if self.scan_layers:
            return kinds
        return tuple(zip(*((None,) * self.depth if kind is None else kind for kind in kinds)))
