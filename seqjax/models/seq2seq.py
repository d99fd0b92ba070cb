"""A recurrent encoder-decoder: reads one sequence and writes another (Sutskever et al. 2014; Cho et al. 2014).

Shapes: B rows, S source steps, T target steps, N = B k hypotheses, E the width of the encoder's outputs.
"""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops
from seqjax.models import from_config
from seqjax.models.recurrent_decoder import Memory, RecurrentDecoder, joined


class Seq2Seq(RecurrentDecoder):
    """source tokens [B, S], lengths [B], target tokens [B, T] -> logits [B, T, V] of every target, the ones before it given.

    context: how the source reaches the decoder, from a bottleneck to none:
        'last'        its first state is the encoder's last one
        'mapped'      its first state is tanh(W last + b), for any widths and two directions
        'mean'        its first state is tanh(W mean + b), with the mean of the encoder's outputs
        'mean_each'   as 'mapped', and the mean is an input at every step
        'attention'   as 'mapped', and a context c_t of its own at every step (Bahdanau et al. 2015)
    feed: where a context of 'mean_each' or 'attention' goes; s is the state, e the embedding of the token before:
        'state'    s_t = cell([e_t, c_t], s_{t-1}) with c_t from s_{t-1}; answer tanh(W [s_t, c_t, e_t])  (Bahdanau et al. 2015)
        'output'   s_t = cell(e_t, s_{t-1}), c_t from s_t; answer_t = tanh(W [s_t, c_t])                  (Luong et al. 2015)
        'input'    the same with s_t = cell([e_t, answer_{t-1}], s_{t-1}): input feeding                  (the same, section 3.3)
    attention, value_width, hard_attention: see `nn.Attention`; attention may be a module with its calls.
    copy: a token is also copied from the source, with the weights of the attention, as often as a learned gate says (See et al.
        2017, equation 9); needs one vocabulary for both sides. What is returned are log-probabilities then.
    bidirectional: the encoder reads both ways. encoder_width: of each way; 0: width. embedding: its width; 0: width.
    encoder, decoder: stacks of recurrent layers; None: those of cell, width, depth and the like.
    tie_embeddings: output weights are those of the target's embedding. dropout acts on embeddings, between layers and on the answer.

    For decoding, one step at a time, for k hypotheses of every row: `begin` and `step`.
    """

    vocabulary: int
    target_vocabulary: int = 0
    shared: bool = False

    cell: str = 'gru'
    width: int = 256
    depth: int = 1
    embedding: int = 0
    encoder_width: int = 0
    bidirectional: bool = False
    context: str = 'attention'
    feed: str = 'state'
    attention: str | linen.Module = 'additive'
    value_width: int = 0
    hard_attention: bool = False
    copy: bool = False
    tie_embeddings: bool = False
    dropout: float = 0.0
    dtype: str = 'float32'
    encoder: nn.Recurrent | None = None
    decoder: nn.Recurrent | None = None

    output_kinds = ('target_token',)
    contexts = 'last', 'mapped', 'mean', 'mean_each', 'attention'

    def __post_init__(self):
        super().__post_init__()
        from_config.check_seq2seq(self)

    def setup(self):
        V, dtype = self.target_vocabulary or self.vocabulary, jnp.dtype(self.dtype)
        self.encoding, decoding = from_config.recurrent_stacks(self)
        self.set_up_decoder(V, decoding, bridged=self.context != 'last')
        self.source_embedding = self.target_embedding if self.shared else self.make_embedding(self.vocabulary)
        if self.copy:
            self.gate = nn.Projection((1,), ('embed', None), kernel_init=linen.initializers.lecun_normal(), dtype=dtype)

    def begin(self, inputs, lengths=None, max_length=None, *, train=False):
        """(Memory, DecoderState) after reading source tokens [B, S], row b only up to lengths[b]."""
        del max_length  # its state has the same size however long the answer
        B, S = inputs.shape
        lengths = jnp.full(B, S) if lengths is None else lengths
        outputs, final = self.encoding(self._embed(self.source_embedding, inputs, train), lengths, train=train)
        mean = ops.mean_step(outputs, lengths)
        keys, values = self.lookup.read(outputs) if self.context == 'attention' else (None, None)
        return Memory(inputs, ops.valid_steps(lengths, S), keys, values, mean), self.first_state(
            self._first_layers(final, mean), B, S, outputs.dtype)

    @linen.nowrap
    def make_decoder(self, **options):
        """The recurrent stack that writes."""
        return from_config.recurrent_stacks(self, **options)[1]

    def _first_layers(self, final, mean):
        """The decoder's first state, from the encoder's last one or from the mean of its outputs."""
        if self.context == 'last':
            return final
        if self.encoding.bidirectional:
            final = [[joined(*ways) for ways in zip(*layer)] for layer in final]
        return self._bridged([[mean] * len(layer) for layer in final] if self.context == 'mean' else final)

    def _score(self, answers, weights, memory):
        """Logits [B, Q, V] of answers [B, Q, R]; with copy log-probabilities."""
        logits = super()._score(answers, weights, memory)
        if not self.copy:
            return logits
        own = jax.nn.sigmoid(self.gate(answers).astype(jnp.float32))  # [B, Q, 1]
        rows, V = jnp.arange(len(answers))[:, None], logits.shape[-1]
        copied = jnp.zeros((len(answers), V, answers.shape[1])).at[rows, memory.tokens].add(weights.swapaxes(1, 2))
        mixed = own * jax.nn.softmax(logits.astype(jnp.float32)) + (1 - own) * copied.swapaxes(1, 2)
        return jnp.log(jnp.maximum(mixed, jnp.finfo(jnp.float32).tiny))

    @property
    def _has_context(self):
        """Whether every step is told something of the source."""
        return self.context in ('mean_each', 'attention')
