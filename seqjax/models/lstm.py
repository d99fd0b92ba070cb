"""The recurrent language model: embedding, LSTM stack, softmax (Mikolov et al. 2010; Zaremba et al. 2014)."""

from flax import linen
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError


class LSTMLanguageModel(linen.Module):
    """tokens [B, T] -> logits [B, T, V].

    Its generation state is the recurrent state of every layer: a row's whole past in 2 * depth vectors.
    """

    vocabulary: int
    width: int = 256
    depth: int = 1
    dropout: float = 0.0
    tie: bool = False
    dtype: str = 'float32'

    context_length = None  # the state never fills up

    def __post_init__(self):
        super().__post_init__()
        for field in ('width', 'depth'):
            if getattr(self, field) < 1:
                raise FieldError(field, getattr(self, field), 'must be at least 1')

    def setup(self):
        dtype = jnp.dtype(self.dtype)
        self.embedding = nn.Embedding(self.vocabulary, self.width, linen.initializers.normal(self.width ** -0.5), dtype)
        self.drop = linen.Dropout(self.dropout)
        self.lstm = nn.LSTM(self.width, self.depth, self.dropout, dtype)
        if not self.tie:
            self.output = nn.Projection((self.vocabulary,), ('embed', 'vocab'), dtype=dtype,
                                        kernel_init=linen.initializers.normal(self.width ** -0.5))

    def __call__(self, tokens, *, train=False):
        return self._run(tokens, None, None, train)[1]

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """What the model remembers before the first token."""
        del max_length  # a recurrent state has the same size however long the text
        return nn.LSTM(self.width, self.depth, parent=None).zero_state(batch_size)

    def extend(self, state, tokens, lengths=None):
        """Reads tokens [B, T] (row b only up to lengths[b]) and returns (state, logits [B, T, V])."""
        return self._run(tokens, lengths, state, train=False)

    def _run(self, tokens, lengths, state, train):
        x = self.drop(self.embedding(tokens), deterministic=not train)  # [B, T, D]
        x, state = self.lstm(x, lengths, state, train=train)  # [B, T, N]
        x = self.drop(x, deterministic=not train)
        return state, self.embedding.attend(x) if self.tie else self.output(x)
