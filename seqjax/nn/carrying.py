"""Blocks whose layers carry a state from step to step, and stacks of them.

A layer is a linen module with two calls:

    layer(x, state, number, lengths=None, segments=None)      x [B, T, D] -> ([B, T, D], state)
    layer.empty_state(rows)                                   the state before the first step, arrays of so many rows

lengths: [B], steps from lengths[b] on leave no trace in the state. segments: [B, T], where their number changes a new text
begins. number: of the layer in its stack, from 0, for what starts differently in every layer. Shapes: B rows, T steps, D width, L
layers.
"""

from collections.abc import Callable

from flax import linen as nn
import jax
import jax.numpy as jnp


class CarryingBlock(nn.Module):
    """x + layer(norm(x)) for one layer after another.

    layers: (name, make) of each, and make(name=name) is the layer. norm(name=...) makes a norm. dropout: on what a layer says.
    """

    layers: tuple[tuple[str, Callable[..., nn.Module]], ...]
    norm: Callable[..., nn.Module]
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x, states, number=0, *, lengths=None, segments=None, train=False):
        """([B, T, D], states), a state for each of its layers."""
        kept = []
        for (name, make), state in zip(self.layers, states):
            y, state = make(name=name)(self.norm(name=f'{name}_norm')(x), state, number, lengths=lengths, segments=segments)
            x = x + nn.Dropout(self.dropout, deterministic=not train)(y)
            kept.append(state)
        return x, tuple(kept)

    @nn.nowrap
    def empty_states(self, rows):
        return tuple(make(parent=None).empty_state(rows) for _, make in self.layers)


class CarryingStack(nn.Module):
    """L blocks one after another, and a last norm.

        stack(x, stack.empty_states(B), segments=segments)      x [B, T, D] -> ([B, T, D], states)

    make_block(name=...) makes a block; blocks are block_0, block_1, ... scan: they are one block, compiled once, whose parameters
    have a leading axis of L, and whose states have it second, after the rows; otherwise states are a tuple with those of each
    layer. remat: what is inside a block is computed again in the backward pass and not stored.
    """

    make_block: Callable[..., CarryingBlock]
    depth: int
    norm: Callable[..., nn.Module]
    scan: bool = False
    remat: bool = False

    def setup(self):
        if self.scan:
            self.blocks = self.make_block(name='blocks')
        else:
            self.blocks = [self.make_block(name=f'block_{number}') for number in range(self.depth)]
        self.last_norm = self.norm(name='norm')

    def __call__(self, x, states, *, lengths=None, segments=None, train=False):
        def run(block, x, states, number):
            return block(x, states, number, lengths=lengths, segments=segments, train=train)

        run = nn.remat(run, prevent_cse=not self.scan) if self.remat else run
        if self.scan:
            layers = nn.scan(run, variable_axes={'params': 0}, split_rngs={'params': True, 'dropout': True}, in_axes=(1, 0),
                             out_axes=1, length=self.depth, metadata_params={nn.PARTITION_NAME: 'layers'})
            x, states = layers(self.blocks, x, states, jnp.arange(self.depth))
        else:
            kept = []
            for number, (block, state) in enumerate(zip(self.blocks, states)):
                x, state = run(block, x, state, number)
                kept.append(state)
            states = tuple(kept)
        return self.last_norm(x), states

    @nn.nowrap
    def empty_states(self, rows):
        """The states of all layers before the first step."""
        empty = self.make_block(parent=None).empty_states(rows)
        if not self.scan:
            return (empty,) * self.depth
        return jax.tree.map(lambda x: jnp.repeat(x[:, None], self.depth, axis=1), empty)
