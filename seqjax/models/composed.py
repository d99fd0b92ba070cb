"""Networks of blocks that are passed in: the modules they take, and stacks of them."""

from collections.abc import Callable
from typing import Any

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, check_at_least
from seqjax.special_tokens import START


class Composed(linen.Module, kw_only=True):
    """A network of blocks; `from_config.TransformerFields` describes them by fields instead.

    width, depth: D, L. block: an `nn.Block` or another module with its calls, of which every layer
    has a copy; norm: after the last block unless that ends in one ('post'), and wherever else the
    network has a norm. positions: `nn.Positions`, None: none. sliding_window: attention reaches so many
    positions, 0: all. tie_embeddings: output weights are those of the embedding. embedding_dropout: on the
    inputs of the first block. scan_layers, remat: see `nn.Stack`. dtype: of activations and matmuls.
    """

    width: int = 128
    depth: int = 4
    block: linen.Module | Callable[..., linen.Module] | None = None
    norm: linen.Module | Callable[..., linen.Module] | None = None
    positions: linen.Module | None = None
    sliding_window: int = 0
    tie_embeddings: bool = True
    embedding_dropout: float = 0.0
    scan_layers: bool = False
    remat: bool = False
    dtype: str = 'float32'

    balances = False  # whether what a mixture of experts sows is part of the loss

    def __post_init__(self):
        for part in ('block', 'norm'):
            object.__setattr__(self, part, nn.maker(getattr(self, part)))
        super().__post_init__()
        check_at_least(self, 1, 'width', 'depth')

    def make_embedding(self, vocabulary: int) -> nn.Embedding:
        """A table of tokens."""
        init = linen.initializers.normal(self.width ** -0.5)
        return nn.Embedding(vocabulary, self.width, init, jnp.dtype(self.dtype))

    def make_positions(self, length: int | None = None, causal: bool = False,
                       name: str = 'positions') -> linen.Module:
        """The positions of a stack. length: no row is longer."""
        return getattr(self, name) or nn.Positions('none', self.width, 1)

    @linen.nowrap
    def make_stack(self, depth: int = 0, cross: bool = False, **options: Any) -> nn.Stack:
        """A stack of `depth` blocks, 0: the model's depth; with cross-attention or without."""
        block = self.decoder_block if cross else self.block
        if block is None:
            raise FieldError('decoder_block' if cross else 'block', None, 'pass an nn.Block, or '
                             'take a family that makes its own: models.GPT, models.BERT, ...')
        last = self.norm if getattr(block(parent=None), 'norm_position', 'pre') == 'pre' else None
        return nn.Stack(block, depth or self.depth, last, self.scan_layers, self.remat, **options)

    @linen.nowrap
    def make_norm(self) -> linen.Module:
        """A norm outside of the blocks."""
        return self.norm()

    @linen.nowrap
    def kernel_init(self, contract: int = 1, variance: float = 1.0) -> Callable:
        """The initializer of a kernel that sums over `contract` axes."""
        return nn.fan_in(contract, variance)

    @linen.nowrap
    def slots(self, stack: nn.Stack, caches: Any, pages: jax.Array | None = None) -> int:
        """The positions that the KV caches of a stack have room for; 0: it has none."""
        if not stack.rewinds:
            return 0
        slots = jax.tree.leaves(caches)[0].shape[2 if self.scan_layers else 1]
        return slots if pages is None else pages.shape[1] * slots


def placed(x: jax.Array, place: linen.Module, steps: jax.Array) -> jax.Array:
    """Embedded tokens [B, T, D] with what positions add to them."""
    positions = place(steps)
    if getattr(place, 'kind', None) == 'sinusoidal':
        x = x * jnp.asarray(x.shape[-1] ** 0.5, x.dtype)  # Vaswani et al. 2017, section 3.4
    return x if positions is None else x + positions


def decoder_inputs(inputs: jax.Array, targets: jax.Array | None, previous: jax.Array | None = None) -> jax.Array:
    """What a decoder reads: `previous`, or START and all targets but the last; targets None: START alone."""
    if previous is not None:
        return previous
    targets = jnp.zeros((len(inputs), 1), jnp.int32) if targets is None else targets
    return jnp.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=START)


def only(mask: ops.Mask, seen: jax.Array | None, T: int) -> ops.Mask | jax.Array:
    """A mask over T queries with keys `seen`, [B, S] of booleans; None: all of them."""
    if seen is None:
        return mask
    dense, seen = mask.dense(T, seen.shape[1]), seen[:, None, None]  # [B, 1, T, S], [B, 1, 1, S]
    return seen if dense is None else dense & seen
