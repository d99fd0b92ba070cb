"""From the outputs of an encoder to one vector a row."""

from flax import linen as nn
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, check_at_least
from seqjax.nn.projection import Projection, partitioned

POOLINGS = ('last', 'mean', 'max', 'attention')


class Pooling(nn.Module):
    """outputs [B, T, M] and last [B, M] of an encoder, lengths [B] or None -> [B, M], or [B, queries * M] for 'attention'.

    'last' is what the encoder knows at the end; 'mean' and 'max' go over the steps of the row. 'attention' has learned
    queries, each of which weighs the steps on its own (Lin et al. 2017, equation 6), with the scale of `ops.attend`:

        a_q = softmax_t(q . tanh(W h_t) / sqrt(M)),     result_q = sum_t a_{q, t} h_t
    """

    kind: str = 'last'
    queries: int = 1
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        if self.kind not in POOLINGS:
            raise FieldError('pooling', self.kind, f'choose one of: {", ".join(POOLINGS)}')
        check_at_least(self, 1, 'queries')

    @nn.compact
    def __call__(self, outputs, last, lengths=None):
        if self.kind == 'last':
            return last
        if self.kind == 'mean':
            return ops.mean_step(outputs, lengths)
        if self.kind == 'max':
            return ops.max_step(outputs, lengths)
        B, T, M = outputs.shape
        keys = jnp.tanh(Projection((M,), ('embed', 'hidden'), bias=False, kernel_init=nn.initializers.lecun_normal(),
                                   dtype=self.dtype, name='keys')(outputs))
        queries = self.param('queries', partitioned(nn.initializers.normal(1.0), (None, 'hidden')), (self.queries, M))
        queries = jnp.broadcast_to(queries.astype(self.dtype), (B, *queries.shape))
        mask = None if lengths is None else ops.valid_steps(lengths, T)[:, None, None]  # [B, 1, 1, T]
        pooled = ops.attend(queries[:, :, None], keys[:, :, None], outputs[:, :, None], mask)  # one head: [B, Q, 1, M]
        return pooled.reshape(B, -1)
