"""The base of all language models: an embedding, layers, and an LM head."""

from typing import Any

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn


class LanguageModel(linen.Module):
    """tokens [B, T] -> logits [B, T, V] of the token after each.

    A family is a subclass. Its `setup` makes

        embedding    tokens [B, T] -> [B, T, D]; embedding.attend scores where there is no output
        drop         the dropout of what is embedded
        output       hidden states [B, T, D] -> logits; None: tied to the embedding

    and it defines `hidden`; to generate, also `initial_state` and `extend_hidden`, and
    `context_length` where that is limited. segments: [B, T] where rows hold several texts (see
    `data.batches.packing`): each is read as if it had a row of its own.
    """

    vocabulary: int

    output_kinds = ('next_token',)
    packs = True  # a row may hold several texts
    context_length = None  # the state never fills up

    def __call__(self, tokens: jax.Array, *, segments: jax.Array | None = None,
                 train: bool = False, **more: Any) -> jax.Array:
        """Logits [B, T, V] of tokens [B, T]. more: what `hidden` takes."""
        return self.score(self.hidden(tokens, segments=segments, train=train, **more)[0])

    def hidden(self, tokens: jax.Array, *, segments: jax.Array | None = None,
               train: bool = False) -> tuple[jax.Array, Any]:
        """(hidden states [B, T, D], the state at the end of the rows or None)"""
        raise NotImplementedError

    def extend(self, state: Any, tokens: jax.Array, lengths: jax.Array | None = None,
               **more: Any) -> tuple[Any, jax.Array]:
        """Reads tokens [B, T], row b only up to lengths[b]: (state, logits [B, T, V])."""
        state, x = self.extend_hidden(state, tokens, lengths, **more)
        return state, self.score(x)

    def score(self, x: jax.Array) -> jax.Array:
        """Logits [B, T, V] of hidden states [B, T, D]."""
        return self.embedding.attend(x) if self.output is None else self.output(x)

    @linen.nowrap
    def make_output(self, kernel_init, bias: bool = False) -> nn.Projection | None:
        """The output that `tie_embeddings` asks for, in `setup`."""
        return None if self.tie_embeddings else nn.Projection(
            (self.vocabulary,), ('embed', 'vocab'), bias=bias, kernel_init=kernel_init,
            dtype=jnp.dtype(self.dtype))
