"""Words as vectors: one from a table, learned or pretrained, and one from how the word is spelled.

Token 0 is padding, of words and of characters; word 1 is the unknown word.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from seqjax import ops
from seqjax.errors import FieldError, check_rates
from seqjax.nn.encoders import RecurrentEncoder
from seqjax.nn.projection import Embedding, partitioned
from seqjax.nn.recurrent import LSTM

SPELLINGS = ('lstm', 'conv')
UNKNOWN = 1


class WordVectors:
    """A pretrained table [V, D]: the initializer of a parameter, and hashable, so that a module can have it as a field."""

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, np.float32)
        if self.vectors.ndim != 2:
            raise FieldError('table', self.vectors.shape, 'word vectors have the shape [V, D]')

    def __call__(self, key, shape, dtype=jnp.float32):
        del key
        if shape != self.shape:
            raise FieldError('table', self.shape, f'the vocabulary asks for word vectors of shape {shape}')
        return jnp.asarray(self.vectors, dtype)

    @property
    def shape(self):
        return self.vectors.shape

    def __eq__(self, other):
        return isinstance(other, WordVectors) and np.array_equal(self.vectors, other.vectors)

    def __hash__(self):
        return hash(self.shape)

    def __repr__(self):
        return f'WordVectors{self.shape}'


class Spelling(nn.Module):
    """characters [N, C] of N words -> [N, features]; a word of no characters gives zeros.

    'lstm': the last states of an LSTM in both directions, a half of the features each (Lample et al. 2016). 'conv': the
    maximum over a convolution of three characters (Ma & Hovy 2016).
    """

    kind: str
    characters: int
    features: int
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        if self.kind not in SPELLINGS:
            raise FieldError('character_encoder', self.kind, f'choose one of: {", ".join(SPELLINGS)}')
        if self.features < 1:
            raise FieldError('character_width', self.features, 'must be at least 1')
        if self.kind == 'lstm' and self.features % 2:
            raise FieldError('character_width', self.features, "must be even for 'lstm': each direction gives a half")

    @nn.compact
    def __call__(self, characters):
        lengths = (characters != 0).sum(axis=1, dtype=jnp.int32)
        start = nn.initializers.normal(self.features ** -0.5)
        embedding = Embedding(self.characters, self.features, start, self.dtype, padding=0, name='embedding')
        if self.kind == 'lstm':
            stack = LSTM(self.features // 2, bidirectional=True, dtype=self.dtype, name='recurrent')
            return RecurrentEncoder(stack)(embedding(characters), lengths)[1]
        return ops.max_step(self._convolution(embedding(jnp.arange(self.characters)), characters), lengths)

    def _convolution(self, rows, characters):
        """b + sum_k W_k x_{c + k}, k = -1, 0, 1: the rows of the table go through W, and words look up what came out.

        The table has fewer characters than a batch: on 2 CPU cores this is five times as fast as to convolve every word.
        """
        shape = 3, self.features, self.features
        kernel = self.param('kernel', partitioned(nn.initializers.lecun_normal(), (None, 'embed', 'mlp')), shape)
        bias = self.param('bias', partitioned(nn.initializers.zeros, ('mlp',)), (self.features,)).astype(self.dtype)
        products = jnp.einsum('cd,kdf->kcf', rows, kernel.astype(self.dtype))
        C, padded = characters.shape[1], jnp.pad(characters, ((0, 0), (1, 1)))
        return bias + sum(products[k][padded[:, k:k + C]] for k in range(3))  # [N, C, features]


class WordEmbedding(nn.Module):
    """words [B, T], and characters [B, T, C] if `characters` is their number -> [B, T, features + character_width].

    table: pretrained vectors [V, features] that the table starts from. word_dropout: in training a word becomes the unknown
    word with this probability, while its characters stay, so that the model learns what to do with words it has not met.
    """

    vocabulary: int
    features: int
    table: WordVectors | np.ndarray | None = None
    word_dropout: float = 0.0
    characters: int | None = None
    character_encoder: str = 'lstm'
    character_width: int = 32
    table_init: nn.initializers.Initializer = nn.initializers.normal(0.02)
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        if isinstance(self.table, np.ndarray):
            object.__setattr__(self, 'table', WordVectors(self.table))
        super().__post_init__()
        if self.table is not None and self.table.shape != (self.vocabulary, self.features):
            raise FieldError('table', self.table.shape, 'the word vectors do not have the shape (vocabulary, width) = '
                             f'{self.vocabulary, self.features}')
        check_rates(self, 'word_dropout')
        if self.characters is not None:
            self._spelling(parent=None)  # refuses what cannot be

    @nn.compact
    def __call__(self, words, characters=None, *, train=False):
        if train and self.word_dropout:
            unknown = jax.random.bernoulli(self.make_rng('dropout'), self.word_dropout, words.shape) & (words != 0)
            words = jnp.where(unknown, UNKNOWN, words)
        x = Embedding(self.vocabulary, self.features, self.table_init if self.table is None else self.table, self.dtype,
                      padding=0, name='words')(words)
        if self.characters is None:
            return x
        B, T, C = characters.shape
        spelled = self._spelling(name='spelling')(characters.reshape(B * T, C))  # all words of the batch side by side
        return jnp.concatenate((x, spelled.reshape(B, T, -1)), axis=-1)

    @nn.nowrap
    def _spelling(self, **options):
        return Spelling(self.character_encoder, self.characters, self.character_width, self.dtype, **options)
