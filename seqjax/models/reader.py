"""A network that reads a sequence and answers: with a class, with a number, or with a label for every step.

    inputs -> embedding -> encoder -> pooling (one answer a row), or none (one a step) -> output (-> random field)
"""

from flax import linen
import jax.numpy as jnp
import numpy as np

from seqjax import nn, ops
from seqjax.errors import FieldError, refuse_unused, suggestion


class Reader(linen.Module):
    """inputs, lengths [B] or None -> [B, outputs], or [B, T, outputs] if per_step, in float32.

    inputs: tokens [B, T]; dict(words=[B, T], characters=[B, T, C]); or, where vocabulary is None, frames [B, T, D].
    lengths: steps past a row's length change nothing. segments: [B, T] or None, for rows that hold several sequences.

    From the data:
    vocabulary: of tokens or words. outputs: classes, or 1 for a number. characters: symbols that words are spelled with.
    table: pretrained word vectors [V, D]; the embedding starts from them and has their width.

    From the config:
    encoder: a cell of `ops.CELLS`, 'conv' or 'attention', of this width and depth. embedding: its width; 0: that of the
        encoder, and frames go in as they are. one_hot: unit vectors instead.
    pooling, queries: see `nn.Pooling`. crf: the labels of a row are judged together (`ops.crf`; Lample et al. 2016), and
        what is returned is (scores, ops.Transitions).
    dropout acts on embedded inputs, between layers and on what the output sees; variational: with one mask for all steps.
    bidirectional: a step sees the whole row; otherwise, whatever the encoder, only what came before it.
    recurrent_dropout, zoneout, weight_drop, learned_state: see `nn.Recurrent`. kernel_size, dilated: see
        `nn.ConvolutionalEncoder`. heads: see `nn.AttentionEncoder`.
    character_encoder, character_width, word_dropout: see `nn.WordEmbedding`.
    """

    vocabulary: int | None
    outputs: int
    per_step: bool = False
    characters: int | None = None
    table: nn.WordVectors | np.ndarray | None = None

    encoder: str = 'lstm'
    width: int = 128
    depth: int = 1
    embedding: int = 0
    one_hot: bool = False
    pooling: str = 'last'
    queries: int = 1
    crf: bool = False
    dropout: float = 0.0
    variational: bool = False
    bidirectional: bool = False
    recurrent_dropout: float = 0.0
    zoneout: float = 0.0
    weight_drop: float = 0.0
    learned_state: bool = False
    kernel_size: int = 5
    dilated: bool = False
    heads: int = 4
    character_encoder: str = ''
    character_width: int = 32
    word_dropout: float = 0.0
    dtype: str = 'float32'

    output_kinds = ('row', 'position')

    def __post_init__(self):
        if isinstance(self.table, np.ndarray):
            object.__setattr__(self, 'table', nn.WordVectors(self.table))
        super().__post_init__()
        _check(self)

    @linen.compact
    def __call__(self, inputs, lengths=None, *, segments=None, train=False):
        dtype = jnp.dtype(self.dtype)
        if segments is not None and not self.per_step:
            raise ValueError('a packed row has an answer for every step, and this model gives one for the whole row')
        x = self._embed(inputs, train)
        outputs, last = _encoder(self)(x, lengths, segments=segments, train=train)  # [B, T, M], [B, M]
        if self.per_step:
            answers = self._drop(outputs, train)
        else:
            pooled = nn.Pooling(self.pooling, self.queries, dtype, name='pooling')(outputs, last, lengths)
            answers = linen.Dropout(self.dropout, deterministic=not train)(pooled)
        scores = nn.Projection((self.outputs,), ('embed', None), kernel_init=linen.initializers.lecun_normal(), dtype=dtype,
                               name='output')(answers).astype(jnp.float32)
        return (scores, self._transitions()) if self.crf else scores

    def _embed(self, inputs, train):
        """[B, T, D]"""
        if self.vocabulary is None and not self.embedding:
            return inputs
        if self.vocabulary is None:
            x = nn.Projection((self.embedding,), (None, 'embed'), kernel_init=linen.initializers.lecun_normal(),
                              dtype=jnp.dtype(self.dtype), name='embedding')(inputs)
        else:
            given = (inputs['words'], inputs['characters']) if self.character_encoder else (inputs,)
            x = _table(self, name='embedding')(*given, **({} if self.one_hot else dict(train=train)))
        return self._drop(x, train)

    def _drop(self, x, train):
        return linen.Dropout(self.dropout, broadcast_dims=(1,) if self.variational else (), deterministic=not train)(x)

    def _transitions(self):
        C, zeros = self.outputs, linen.initializers.zeros
        return ops.Transitions(*(self.param(f'transitions_{part}', nn.partitioned(zeros, (None,) * len(shape)), shape)
                                 for part, shape in (('start', (C,)), ('between', (C, C)), ('end', (C,)))))


_RECURRENT = ('dropout', 'bidirectional', 'variational', 'recurrent_dropout', 'zoneout', 'weight_drop', 'learned_state')
_USED_BY = {**dict.fromkeys(_RECURRENT[2:], 'recurrent'), 'kernel_size': 'conv', 'dilated': 'conv', 'heads': 'attention'}


def _encoder(model, **options):
    """The encoder that the fields of a model describe."""
    same = dict(causal=not model.bidirectional, dropout=model.dropout, dtype=jnp.dtype(model.dtype),
                **(options or dict(name='encoder')))
    if model.encoder == 'conv':
        return nn.ConvolutionalEncoder(model.width, model.depth, model.kernel_size, model.dilated, **same)
    if model.encoder == 'attention':
        return nn.AttentionEncoder(model.width, model.depth, model.heads, **same)
    stack = nn.Recurrent(model.width, model.depth, model.encoder, dtype=jnp.dtype(model.dtype),
                         **{field: getattr(model, field) for field in _RECURRENT}, **(options or dict(name='recurrent')))
    return nn.RecurrentEncoder(stack, **options)


def _table(model, **options):
    """The embedding of tokens or words that the fields of a model describe."""
    dtype = jnp.dtype(model.dtype)
    if model.one_hot:
        return nn.OneHot(model.vocabulary, dtype, **options)
    width = model.embedding or (model.width if model.table is None else model.table.shape[1])
    # Attention adds positions to the table, sines of size 1: it starts with rows of the same size (the sqrt(D) of Vaswani
    # et al. 2017, section 3.4).
    start = linen.initializers.normal(1.0 if model.encoder == 'attention' else width ** -0.5)
    return nn.WordEmbedding(model.vocabulary, width, model.table, model.word_dropout,
                            model.characters if model.character_encoder else None, model.character_encoder,
                            model.character_width, start, dtype, **options)


# ------------------------------------------------------------------------------------------------ what cannot be

def _check(model):
    encoders = (*ops.CELLS, 'conv', 'attention')
    if model.encoder not in encoders:
        raise FieldError('encoder', model.encoder, f'no such encoder; {suggestion(model.encoder, encoders)}')
    for field, least in (('width', 1), ('depth', 1), ('outputs', 1), ('embedding', 0)):
        if getattr(model, field) < least:
            raise FieldError(field, getattr(model, field), f'must be at least {least}')
    kind = 'recurrent' if model.encoder in ops.CELLS else model.encoder
    for field, user in _USED_BY.items():
        refuse_unused(model, field, kind != user, f'is for {user} encoders, and encoder={model.encoder!r}')
    refuse_unused(model, 'pooling', model.per_step, 'makes one answer of a row, and the data has a label for every step')
    refuse_unused(model, 'queries', model.per_step or model.pooling != 'attention', "is for pooling='attention' over a row")
    refuse_unused(model, 'crf', not model.per_step, 'is for labels of every step, and the data has one answer a row')
    refuse_unused(model, 'one_hot', model.vocabulary is None, 'is for tokens, and the inputs are frames')
    refuse_unused(model, 'one_hot', model.table is not None, 'leaves no place for the word vectors of the data')
    refuse_unused(model, 'embedding', model.one_hot, 'is the width of an embedding, and one_hot=True has none')
    refuse_unused(model, 'word_dropout', model.vocabulary is None or model.one_hot, 'is for an embedding of tokens')
    refuse_unused(model, 'character_encoder', model.one_hot, 'goes with an embedding of words, and one_hot=True has none')
    refuse_unused(model, 'character_encoder', model.characters is None, 'reads characters of words, and the data has none')
    refuse_unused(model, 'character_width', not model.character_encoder, "is for a character_encoder, and it is ''")
    if model.table is not None and model.embedding not in (0, model.table.shape[1]):
        raise FieldError('embedding', model.embedding, f'the word vectors have width {model.table.shape[1]}; leave it at 0')
    nn.Pooling(model.pooling, model.queries, parent=None)
    _encoder(model, parent=None)
    if model.vocabulary is not None:
        _table(model, parent=None)
