"""A recurrent language model over any cell of `ops.CELLS`."""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError


class RecurrentLanguageModel(linen.Module):
    """tokens [B, T] -> logits [B, T, V]: embedding, recurrent stack, softmax (Mikolov et al. 2010; Zaremba et al. 2014).

    one_hot: unit vectors instead of an embedding. tie: output weights are those of the embedding (Press & Wolf 2017).
    dropout acts on the embedded tokens, between layers and on the outputs; variational: with one mask for all steps of a
    row (Gal & Ghahramani 2016). recurrent_dropout, zoneout, weight_drop, learned_state: see `nn.Recurrent`.

    In training the collection 'penalties' is sown (Merity et al. 2017, AR and TAR), as sums over all steps:

        activation_penalty * sum_t mean_n (m * h_t)^2          m the mask of the output's dropout
        slowness_penalty * sum_t mean_n (h_t - h_{t-1})^2      over the steps that have one before them in the row

    The state for generation, and for reading a text in one batch after the other, is (the recurrent state of every layer,
    whether the row is new [B]). segments: [B, T] where rows hold several texts (see `data.packing`): each is read as if it
    had a row of its own, and neither penalty counts padding or the step from one text to the next.
    """

    vocabulary: int
    cell: str = 'lstm'
    width: int = 256
    depth: int = 1
    dropout: float = 0.0
    variational: bool = False
    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    weight_drop: float = 0.0
    learned_state: bool = False
    tie: bool = False
    one_hot: bool = False
    activation_penalty: float = 0.0
    slowness_penalty: float = 0.0
    dtype: str = 'float32'

    output_kinds = ('next_token',)
    carries = True  # `extend` takes `starts`, and a batch can go on where the one before ended
    packs = True  # a row may hold several texts
    context_length = None  # the state never fills up

    def __post_init__(self):
        super().__post_init__()
        _check(self)
        for field in ('activation_penalty', 'slowness_penalty'):
            if not 0 <= getattr(self, field) < float('inf'):
                raise FieldError(field, getattr(self, field), 'must be a positive number, or 0 for off')
        if self.tie and self.one_hot:
            raise FieldError('tie', True, 'one_hot inputs have no embedding to share; set one of the two to false')
        outputs = ops.make_cell(self.cell).output_width(self.width)
        if self.tie and outputs != self.width:
            raise FieldError('tie', True, f'cell {self.cell!r} puts out {outputs} numbers and the embedding has '
                             f'width={self.width}')

    def setup(self):
        dtype, init = jnp.dtype(self.dtype), linen.initializers.normal(self.width ** -0.5)
        self.embedding = (nn.OneHot(self.vocabulary, dtype) if self.one_hot else
                          nn.Embedding(self.vocabulary, self.width, init, dtype))
        self.drop = linen.Dropout(self.dropout, broadcast_dims=(1,) if self.variational else ())
        self.recurrent = _stack(self)
        if not self.tie:
            self.output = nn.Projection((self.vocabulary,), ('embed', 'vocab'), dtype=dtype, kernel_init=init)

    def __call__(self, tokens, *, segments=None, train=False):
        return self.score(self._run(self._embed(tokens, train), None, None, train, segments)[1])

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """What the model remembers before the first token."""
        del max_length  # a recurrent state has the same size however long the text
        return _stack(self, parent=None).zero_state(batch_size), jnp.ones(batch_size, bool)

    def extend(self, state, tokens, lengths=None, *, starts=None, train=False):
        """Reads tokens [B, T] (row b only up to lengths[b]) and returns (state, logits [B, T, V]).

        starts: [B] or None; a row where it is 1 forgets its state and begins anew.
        """
        state, h = self.extend_hidden(state, tokens, lengths, starts=starts, train=train)
        return state, self.score(h)

    def extend_hidden(self, state, tokens, lengths=None, *, starts=None, train=False):
        """The same with what the last layer says [B, T, N], of which `score` makes logits."""
        layers, new = state
        new = new if starts is None else new | (starts > 0)
        x = self._embed(tokens, train)
        layers = ops.select_rows(new, self._fresh(x, layers), layers)
        layers, h = self._run(x, lengths, layers, train)
        return (layers, jnp.zeros_like(new) if lengths is None else new & (lengths == 0)), h

    def score(self, h):
        """Logits [B, T, V] of what the last layer says."""
        return self.embedding.attend(h) if self.tie else self.output(h)

    def _embed(self, tokens, train):
        return self.drop(self.embedding(tokens), deterministic=not train)  # [B, T, D]

    def _fresh(self, x, layers):
        """The state that a row begins with: a row of no steps ends in it."""
        if not self.learned_state:
            return jax.tree.map(jnp.zeros_like, layers)
        return self.recurrent(x[:, :1], jnp.zeros(len(x), jnp.int32))[1]

    def _run(self, x, lengths, layers, train, segments=None):
        h, layers = self.recurrent(x, lengths, layers, segments=segments, train=train)  # [B, T, N]
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
                self.sow('penalties', name, factor * total, reduce_fn=jnp.add, init_fn=_zero)


_SAME = ('cell', 'dropout', 'variational', 'recurrent_dropout', 'zoneout', 'weight_drop', 'learned_state')


def _stack(model, **options):
    """The recurrent layers that the fields of a model describe."""
    return nn.Recurrent(model.width, model.depth, dtype=jnp.dtype(model.dtype),
                        **{field: getattr(model, field) for field in _SAME}, **options)


def _check(model):
    for field in ('width', 'depth'):
        if getattr(model, field) < 1:
            raise FieldError(field, getattr(model, field), 'must be at least 1')
    _stack(model, parent=None)  # refuses an unknown cell, and rates that cannot be


def _zero():
    return jnp.zeros((), jnp.float32)
