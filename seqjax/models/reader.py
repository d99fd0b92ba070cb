"""A network that reads a sequence and answers: with a class, with a number, or with a label for every step.

    inputs -> embedding -> encoder -> pooling (one answer a row), or none (one a step) -> output (-> random field)
"""

from flax import linen
import jax.numpy as jnp
import numpy as np

from seqjax import nn, ops
from seqjax.models import from_config


class Reader(nn.Regularisers):
    """inputs, lengths [B] or None -> [B, outputs], or [B, T, outputs] if per_step, in float32.

    inputs: tokens [B, T]; dict(words=[B, T], characters=[B, T, C]); or, where vocabulary is None, frames [B, T, D]
        or images [B, H, W, C], whose rows of pixels are the frames, or videos [B, T, H, W, C]; pixels are uint8, or from 0 to 1.
    lengths: steps past a row's length change nothing. segments: [B, T] or None, for rows that hold several sequences.

    From the data:
    vocabulary: of tokens or words. outputs: classes, or 1 for a number. characters: symbols that words are spelled with.
    table: pretrained word vectors [V, D]; the embedding starts from them and has their width.

    From the config, or modules:
    encoder: a cell of `ops.CELLS`, 'conv' or 'attention', of this width and depth; or a stack of recurrent layers, or another
        module with the call of `nn.encoders`: Reader(V, 3, encoder=nn.LSTM(64, num_layers=2)).
    embedding: its width; 0: that of the encoder, and frames go in as they are; or a module. one_hot: unit vectors instead.
    pooling, queries: see `nn.Pooling`; or a module with its call. head: a module, pooled outputs -> [..., outputs]; None: a
        linear map. crf: the labels of a row are judged together (`ops.crf`; Lample et al. 2016), and
        what is returned is (scores, ops.Transitions).
    dropout acts on embedded inputs, between layers and on what the output sees; variational: with one mask for all steps.
    bidirectional: a step sees the whole row; otherwise, whatever the encoder, only what came before it.
    recurrent_dropout, zoneout, weight_drop, learned_state: see `nn.Regularisers`. kernel_size, dilated: see
        `nn.ConvolutionalEncoder`. heads: see `nn.AttentionEncoder`.
    character_encoder, character_width, word_dropout: see `nn.WordEmbedding`.
    """

    vocabulary: int | None = None
    outputs: int = 2
    per_step: bool = False
    characters: int | None = None
    table: nn.WordVectors | np.ndarray | None = None

    encoder: str | linen.Module = 'lstm'
    width: int = 128
    depth: int = 1
    embedding: int | linen.Module = 0
    one_hot: bool = False
    pooling: str | linen.Module = 'last'
    queries: int = 1
    crf: bool = False
    dropout: float = 0.0
    variational: bool = False
    bidirectional: bool = False
    kernel_size: int = 5
    dilated: bool = False
    heads: int = 4
    character_encoder: str = ''
    character_width: int = 32
    word_dropout: float = 0.0
    dtype: str = 'float32'
    head: linen.Module | None = None

    output_kinds = ('row', 'position')

    def __post_init__(self):
        if isinstance(self.table, np.ndarray):
            object.__setattr__(self, 'table', nn.WordVectors(self.table))
        super().__post_init__()
        from_config.check_reader(self)

    @linen.compact
    def __call__(self, inputs, lengths=None, *, segments=None, train=False):
        if segments is not None and not self.per_step:
            raise ValueError('a packed row has an answer for every step, and this model gives one for the whole row')
        if self.vocabulary is None and not isinstance(self.embedding, linen.Module):
            inputs = ops.unit_range(inputs)
            inputs = inputs.reshape(*inputs.shape[:2], -1)
        x = self._embed(inputs, train)
        outputs, last = from_config.encoder(self)(x, lengths, segments=segments, train=train)  # [B, T, M], [B, M]
        if self.per_step:
            answers = self._drop(outputs, train)
        else:
            pooled = from_config.pooling(self)(outputs, last, lengths)
            answers = linen.Dropout(self.dropout, deterministic=not train)(pooled)
        head = self.head or nn.Projection((self.outputs,), ('embed', None), kernel_init=linen.initializers.lecun_normal(),
                                          dtype=jnp.dtype(self.dtype), name='output')
        scores = head(answers).astype(jnp.float32)
        return (scores, self._transitions()) if self.crf else scores

    def _embed(self, inputs, train):
        """[B, T, D]"""
        if isinstance(self.embedding, linen.Module):
            return self._drop(self.embedding(inputs), train)
        if self.vocabulary is None and not self.embedding:
            return inputs
        if self.vocabulary is None:
            x = nn.Projection((self.embedding,), (None, 'embed'), kernel_init=linen.initializers.lecun_normal(),
                              dtype=jnp.dtype(self.dtype), name='embedding')(inputs)
        else:
            given = (inputs['words'], inputs['characters']) if self.character_encoder else (inputs,)
            x = from_config.word_embedding(self, name='embedding')(*given, **({} if self.one_hot else dict(train=train)))
        return self._drop(x, train)

    def _drop(self, x, train):
        return linen.Dropout(self.dropout, broadcast_dims=(1,) if self.variational else (), deterministic=not train)(x)

    def _transitions(self):
        C, zeros = self.outputs, linen.initializers.zeros
        return ops.Transitions(*(self.param(f'transitions_{part}', nn.partitioned(zeros, (None,) * len(shape)), shape)
                                 for part, shape in (('start', (C,)), ('between', (C, C)), ('end', (C,)))))
