"""BERT: an encoder-only Transformer that fills in what is masked, and is then taught something else (Devlin et al. 2019).

Shapes: B rows, T steps, M masked places of a row, D width, V vocabulary.
"""

from flax import linen
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.errors import FieldError
from seqjax.models.composed import Composed, only, placed
from seqjax.models.from_config import TransformerFields
from seqjax.special_tokens import END


class EncoderOnly(Composed):
    """inputs [B, T], lengths [B] or None -> what `outputs` says:

        0                  dict(tokens=[B, M, V], next=[B, 2]): logits of what stands at `places` [B, M] (None: at every step), and of
                           whether the second text follows the first
        C                  [B, C] for a row, from the first step, [CLS]; with `per_step` [B, T, C], from every step
    A row is START, a text, END and, where there are two, another text and END. types: [B, T], which of the texts a step is of;
    None: it is counted from the first END, whose number is `end`. typed: how many there are; 0: no step is told. tie_embeddings: the masked
    tokens are scored against the embedding.
    """

    vocabulary: int
    context_length: int | None = None
    outputs: int = 0
    per_step: bool = False
    end: int = END

    typed: int = 2
    dropout: float = 0.0

    output_kinds = ('masked_token', 'row', 'position')
    marks_rows = True  # a row begins with START and ends with END

    def setup(self):
        dtype, init = jnp.dtype(self.dtype), self.kernel_init()
        dense = lambda width, axes: nn.Projection((width,), axes, bias=True, kernel_init=init, dtype=dtype)
        self.embedding = self.make_embedding(self.vocabulary)
        self.place = self.make_positions(self.context_length)
        if self.typed:
            self.types = self.make_embedding(self.typed)
        self.embedding_norm = self.make_norm()
        self.drop, self.drop_pooled = linen.Dropout(self.embedding_dropout), linen.Dropout(self.dropout)
        self.encoder = self.make_stack()
        if not self.per_step:
            self.pooler = dense(self.width, ('embed', None))
        if self.outputs:
            self.classifier = dense(self.outputs, ('embed', None))
            return
        self.next = dense(2, ('embed', None))
        self.masked_dense, self.masked_norm = dense(self.width, ('embed', None)), self.make_norm()
        if not self.tie_embeddings:
            self.masked_output = nn.Projection((self.vocabulary,), ('embed', 'vocab'), bias=False, kernel_init=init, dtype=dtype)

    def __call__(self, inputs, lengths=None, *, types=None, places=None, segments=None, train=False):
        if segments is not None:
            raise FieldError('batching', 'pack', "'bert' reads one row at a time, with marks around it; write 'bucket'")
        hidden = self.encode(inputs, lengths, types=types, train=train)  # [B, T, D]
        if self.outputs:
            answers = hidden if self.per_step else self.pool(hidden)
            return self.classifier(self.drop_pooled(answers, deterministic=not train)).astype(jnp.float32)
        return dict(tokens=self.fill_in(hidden, places), next=self.next(self.pool(hidden)))

    def encode(self, inputs, lengths=None, *, types=None, steps=None, seen=None, train=False):
        """[B, T, D]: what the encoder says of every step. It needs no parameters of the heads.

        steps: [B, T], where the steps stand, if not one after another. seen: [B, T] of booleans, the steps that are looked at, if
        they are not the first lengths[b].
        """
        T = inputs.shape[1]
        if self.context_length is not None and T > self.context_length:
            raise ValueError(f'{T} tokens in a row, and context_length={self.context_length}')
        steps = jnp.arange(T) if steps is None else steps
        x = placed(self.embedding(inputs), self.place, steps)
        if self.typed:
            x = x + self.types(texts(inputs, self.end) if types is None else types)
        x = self.embedding_norm(x)
        mask = only(ops.Mask(window=self.sliding_window, lengths=lengths), seen, T)
        context = nn.Context(mask, self.place.bias(T), steps)
        return self.encoder(self.drop(x, deterministic=not train), context, train=train)[0]

    def pool(self, hidden):
        """[B, D] from the first step."""
        return jnp.tanh(self.pooler(hidden[:, 0]))

    @linen.nowrap
    def activate(self, x):
        """The activation function of the head for masked tokens."""
        return nn.ACTIVATIONS['gelu'](x)

    @linen.compact  # and not in setup: an encoder without heads has no such bias
    def fill_in(self, hidden, places=None):
        """Logits [B, M, V] of the tokens at `places`; None: at every step."""
        if places is not None:
            hidden = jnp.take_along_axis(hidden, places[..., None], axis=1)  # [B, M, D]
        x = self.masked_norm(self.activate(self.masked_dense(hidden)))
        bias = self.param('masked_bias', nn.partitioned(linen.initializers.zeros, ('vocab',)), (self.vocabulary,))
        return (self.embedding.attend(x) if self.tie_embeddings else self.masked_output(x)) + bias.astype(x.dtype)


class BERT(TransformerFields, EncoderOnly, kw_only=True):
    """BERT (Devlin et al. 2019): post-norm, GELU, learned positions, biases."""

    norm_position: str = 'post'
    bias: bool = True
    epsilon: float = 1e-12

    @linen.nowrap
    def activate(self, x):
        return nn.activation_function(self.activation)(x)


def texts(tokens, end=END):
    """[B, T]: 0 up to the first END of a row, 1 after it."""
    ends = (tokens == end).astype(jnp.int32)
    return jnp.minimum(jnp.cumsum(ends, axis=1) - ends, 1)
