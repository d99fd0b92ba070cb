"""A recurrent language model over any cell of `ops.CELLS`."""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError, check_at_least
from seqjax.models.language_model import LanguageModel


class RecurrentLanguageModel(nn.Regularisers, LanguageModel):
    """tokens [B, T] -> logits [B, T, V]: embedding, recurrent layers, softmax (Mikolov et al. 2010; Zaremba et al. 2014).

        models.RecurrentLanguageModel(V, width=64, recurrent=nn.LSTM(64, num_layers=2))

    recurrent: the layers; None: those of `cell`, `width` and `depth`, with `nn.Regularisers`.
    one_hot: unit vectors instead of an embedding. tie_embeddings: output weights are those of the embedding (Press & Wolf 2017).
    dropout acts on the embedded tokens, between layers and on the outputs; variational: with one mask for all steps of a
    row (Gal & Ghahramani 2016).

    In training the collection 'penalties' is sown (Merity et al. 2017, AR and TAR), as sums over all steps:

        activation_penalty * sum_t mean_n (m * h_t)^2          m the mask of the output's dropout
        slowness_penalty * sum_t mean_n (h_t - h_{t-1})^2      over the steps that have one before them in the row

    The state for generation, and for reading a text in one batch after the other, is (the recurrent state of every layer,
    whether the row is new [B]). segments: [B, T] where rows hold several texts (see
    `data.batches.packing`): each is read as if it had a row of its own, and neither penalty counts padding
    or the step from one text to the next.
    """

    cell: str | ops.Cell = 'lstm'
    width: int = 256
    depth: int = 1
    dropout: float = 0.0
    variational: bool = False
    tie_embeddings: bool = False
    one_hot: bool = False
    activation_penalty: float = 0.0
    slowness_penalty: float = 0.0
    dtype: str = 'float32'
    recurrent: nn.Recurrent | None = None

    carries = True  # `extend` takes `starts`, and a batch can go on where the one before ended

    def __post_init__(self):
        super().__post_init__()
        check_at_least(self, 1, 'width', 'depth')
        stack = self._stack(parent=None)  # refuses an unknown cell, and rates that cannot be
        for field in ('activation_penalty', 'slowness_penalty'):
            if not 0 <= getattr(self, field) < float('inf'):
                raise FieldError(field, getattr(self, field), 'must be a positive number, or 0 for off')
        if self.tie_embeddings and self.one_hot:
            raise FieldError('tie_embeddings', True, 'one_hot inputs have no embedding to share; set one of the two to false')
        if self.tie_embeddings and stack.output_width != self.width:
            raise FieldError('tie_embeddings', True, f'cell {stack.cell!r} puts out {stack.output_width} numbers and the embedding has '
                             f'width={self.width}')

    def setup(self):
        dtype, init = jnp.dtype(self.dtype), linen.initializers.normal(self.width ** -0.5)
        self.embedding = (nn.OneHot(self.vocabulary, dtype) if self.one_hot else
                          nn.Embedding(self.vocabulary, self.width, init, dtype))
        self.drop = linen.Dropout(self.dropout, broadcast_dims=(1,) if self.variational else ())
        self.layers = self._stack(name='recurrent')
        self.output = self.make_output(init, bias=True)

    def hidden(self, tokens, *, segments=None, lengths=None, train=False):
        """([B, T, N], the state of the layers)"""
        layers, h = self._run(self._embed(tokens, train), lengths, None, train, segments)
        return h, layers

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """The state before the first token; it has the same size whatever max_length."""
        return self._stack(parent=None).zero_state(batch_size), jnp.ones(batch_size, bool)

    def extend_hidden(self, state, tokens, lengths=None, *, starts=None, train=False):
        """(state, hidden states [B, T, N]). starts: [B] or None; a row where it is 1 forgets its state and begins anew."""
        layers, new = state
        new = new if starts is None else new | (starts > 0)
        x = self._embed(tokens, train)
        layers = ops.select_rows(new, self._fresh(x, layers), layers)
        layers, h = self._run(x, lengths, layers, train)
        return (layers, jnp.zeros_like(new) if lengths is None else new & (lengths == 0)), h

    @linen.nowrap
    def _stack(self, **options):
        return self.recurrent or nn.Recurrent(
            self.width, self.depth, self.cell, dropout=self.dropout, variational=self.variational, dtype=jnp.dtype(self.dtype),
            **self.regularisers(), **options)

    def _embed(self, tokens, train):
        return self.drop(self.embedding(tokens), deterministic=not train)  # [B, T, D]

    def _fresh(self, x, layers):
        """The state that a row begins with: a row of no steps ends in it."""
        if not self.layers.learned_state:
            return jax.tree.map(jnp.zeros_like, layers)
        return self.layers(x[:, :1], jnp.zeros(len(x), jnp.int32))[1]

    def _run(self, x, lengths, layers, train, segments=None):
        h, layers = self.layers(x, lengths, layers, segments=segments, train=train)  # [B, T, N]
        dropped = self.drop(h, deterministic=not train)
        if train:
            self._penalise(h, dropped, segments)
        return layers, dropped

    def _penalise(self, h, dropped, segments):
        segments = jnp.ones(h.shape[:2], jnp.int32) if segments is None else segments
        real, goes_on = segments > 0, segments[:, 1:] == segments[:, :-1]
        squares = lambda x, counted: jnp.where(counted, jnp.square(x.astype(jnp.float32)).mean(axis=-1), 0).sum()
        penalties = dict(activation=(self.activation_penalty, squares(dropped, real)),
                         slowness=(self.slowness_penalty, squares(h[:, 1:] - h[:, :-1], real[:, 1:] & goes_on)))
        for name, (factor, total) in penalties.items():
            if factor:
                self.sow('penalties', name, factor * total, reduce_fn=jnp.add, init_fn=lambda: jnp.zeros((), jnp.float32))
