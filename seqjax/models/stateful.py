"""Language models of layers with a state of one size: what Mamba and RWKV share."""

from collections.abc import Callable
from typing import Any

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import check_at_least
from seqjax.models.language_model import LanguageModel


class StatefulLanguageModel(LanguageModel):
    """tokens [B, T] -> logits [B, T, V] of the token after each.

        block = MambaBlock(nn.Mamba(64), norm)
        models.StatefulLanguageModel(V, width=64, depth=12, block=block, norm=norm)

    width, depth: D, L. block: an `nn.ResidualBlock` of layers with a state, of which every layer
    has a copy; norm: after the last. tie_embeddings: output weights are those of the embedding. dropout: on
    the embedded tokens. scan_layers, remat: see `nn.Stack`.

    The state for generation, and for reading a text in one batch after the other, is that of all
    layers: it has the same size however long the text.
    """

    width: int = 128
    depth: int = 4
    dropout: float = 0.0
    tie_embeddings: bool = True
    scan_layers: bool = False
    remat: bool = False
    dtype: str = 'float32'
    block: linen.Module | Callable[..., linen.Module] | None = None
    norm: linen.Module | Callable[..., linen.Module] | None = None

    carries = True  # `extend` takes `starts`, and a batch can go on where the one before ended

    def __post_init__(self):
        for part in ('block', 'norm'):
            object.__setattr__(self, part, nn.maker(getattr(self, part)))
        super().__post_init__()
        check_at_least(self, 1, 'width', 'depth')

    def setup(self):
        self.embedding = nn.Embedding(self.vocabulary, self.width, self.table_init(),
                                      jnp.dtype(self.dtype))
        self.drop = linen.Dropout(self.dropout)
        self.decoder = self.make_stack()
        self.output = self.make_output(self.output_init())

    def hidden(self, tokens, *, segments=None, lengths=None, train=False):
        """([B, T, D], state). lengths: [B], positions past them are not read."""
        return self._run(self.initial_state(tokens.shape[0], 0), tokens, lengths, segments, train)

    @linen.nowrap
    def initial_state(self, batch_size: int, max_length: int) -> Any:
        """The state before the first token; it has the same size whatever max_length."""
        return self.make_stack(parent=None).empty_states(batch_size)

    def extend_hidden(self, state, tokens, lengths=None, *, starts=None, train=False):
        """(state, hidden states [B, T, D]). starts: [B], 1 where a row begins anew; or None."""
        if starts is not None:
            state = ops.select_rows(starts > 0, self.initial_state(tokens.shape[0], 0), state)
        x, state = self._run(state, tokens, lengths, None, train)
        return state, x

    def _run(self, state, tokens, lengths, segments, train):
        x = self.drop(self.embed(tokens), deterministic=not train)
        return self.decoder(x, nn.Context(lengths=lengths, segments=segments), state, train=train)

    # ----------------------------------------------------------------- what a family changes

    def embed(self, tokens: jax.Array) -> jax.Array:
        """[B, T, D]"""
        return self.embedding(tokens)

    @linen.nowrap
    def make_stack(self, **options: Any) -> nn.Stack:
        """The layers. It may hold fields of the model, and not the model itself."""
        return nn.Stack(self.block or self.make_block(), self.depth, self.norm or self.make_norm(),
                        self.scan_layers, self.remat, **options)

    @linen.nowrap
    def table_init(self):
        """How the embedding starts."""
        return linen.initializers.normal(0.02)

    @linen.nowrap
    def output_init(self):
        """How output weights of their own start."""
        return linen.initializers.normal(0.02)
