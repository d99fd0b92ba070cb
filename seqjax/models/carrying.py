"""Language models that are a residual stack of layers, each of which carries a state of one size: what Mamba and RWKV share."""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn
from seqjax.errors import FieldError


class CarryingLanguageModel(linen.Module):
    """tokens [B, T] -> logits [B, T, V] of the token after each.

    width, depth: D, L. tie: output weights are those of the embedding. dropout: on the embedded tokens and on what every layer
    adds. scan, remat: see `nn.Stack`. A family of models is a subclass that says `_make_stack`, and how its tables start.
    segments: [B, T] where rows hold several texts (see `data.packing`): each is read as if it had a row of its own.

    The state for generation, and for reading a text in one batch after the other, is that of all layers: it has the same size
    however long the text.
    """

    vocabulary: int
    width: int = 128
    depth: int = 4
    dropout: float = 0.0
    tie: bool = True
    scan: bool = False
    remat: bool = False
    dtype: str = 'float32'

    output_kinds = ('next_token',)
    carries = True  # `extend` takes `starts`, and a batch can go on where the one before ended
    packs = True  # a row may hold several texts
    context_length = None  # the state never fills up

    def __post_init__(self):
        super().__post_init__()
        for field in ('width', 'depth'):
            if getattr(self, field) < 1:
                raise FieldError(field, getattr(self, field), 'must be at least 1')

    def setup(self):
        dtype = jnp.dtype(self.dtype)
        self.embedding = nn.Embedding(self.vocabulary, self.width, self._table_init(), dtype)
        self.drop = linen.Dropout(self.dropout)
        self.decoder = self._make_stack()
        if not self.tie:
            self.output = nn.Projection((self.vocabulary,), ('embed', 'vocab'), bias=False, kernel_init=self._output_init(),
                                        dtype=dtype)

    def __call__(self, tokens, *, segments=None, train=False):
        return self.score(self.hidden(tokens, segments=segments, train=train)[0])

    def hidden(self, tokens, *, segments=None, lengths=None, train=False):
        """([B, T, D], state): what the last layer says, before the output. lengths: [B], steps past them are not read."""
        return self._run(self.initial_state(tokens.shape[0], 0), tokens, lengths, segments, train)

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """What the model remembers before the first token."""
        del max_length  # the state has the same size however long the text
        return self._make_stack(parent=None).empty_states(batch_size)

    def extend(self, state, tokens, lengths=None, *, starts=None, train=False):
        """Reads tokens [B, T] (row b only up to lengths[b]) and returns (state, logits [B, T, V]).

        starts: [B] or None; a row where it is 1 forgets its state and begins anew.
        """
        state, x = self.extend_hidden(state, tokens, lengths, starts=starts, train=train)
        return state, self.score(x)

    def extend_hidden(self, state, tokens, lengths=None, *, starts=None, train=False):
        """The same with what the last layer says [B, T, D], of which `score` makes logits."""
        if starts is not None:
            fresh, new = self.initial_state(tokens.shape[0], 0), lambda x: (starts > 0).reshape(-1, *(1,) * (x.ndim - 1))
            state = jax.tree.map(lambda fresh, old: jnp.where(new(old), fresh, old), fresh, state)
        x, state = self._run(state, tokens, lengths, None, train)
        return state, x

    def score(self, x):
        """Logits [B, T, V] of what the last layer says."""
        return self.embedding.attend(x) if self.tie else self.output(x)

    def _run(self, state, tokens, lengths, segments, train):
        x = self.drop(self._embed(tokens), deterministic=not train)
        return self.decoder(x, nn.Context(lengths=lengths, segments=segments), state, train=train)

    def _embed(self, tokens):
        return self.embedding(tokens)

    @linen.nowrap
    def _make_stack(self, **options):
        """The `nn.Stack` that the fields describe. It may hold fields of the model, and not the model itself."""
        raise NotImplementedError

    @linen.nowrap
    def _table_init(self):
        return linen.initializers.normal(0.02)

    @linen.nowrap
    def _output_init(self):
        return linen.initializers.normal(0.02)
