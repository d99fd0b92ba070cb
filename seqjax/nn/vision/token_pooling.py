"""From the tokens of an image to one vector."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion
from seqjax.nn.feed_forward import FeedForward
from seqjax.nn.multi_head import CrossAttention
from seqjax.nn.norms import layer_norm
from seqjax.nn.projection import Projection, partitioned

TOKEN_POOLINGS = ('cls', 'mean', 'cls_mean', 'attention', 'sequence')


class TokenPooling(nn.Module):
    """Tokens [B, P + N, D], P of which stand before those of the N patches, [CLS] first -> [B, D]. kind:

        'cls'        the first token (Dosovitskiy et al. 2021, section 3.1)
        'mean'       the mean of the tokens of patches (Beyer et al. 2022)
        'cls_mean'   both, one after another, [B, 2 D] (the linear classifier of DINOv2, Oquab et al. 2024)
        'attention'  of a learned query q: z = MHA(q, x, x); z + MLP(norm(z)) (Zhai et al. 2022)
        'sequence'   sum_t a_t x_t, a = softmax_t(g . x_t + b) (Hassani et al. 2021)
    heads, epsilon: of 'attention'.
    """

    kind: str
    prefix: int = 0
    heads: int = 1
    epsilon: float = 1e-6
    dtype: jnp.dtype = jnp.float32

    def __post_init__(self):
        super().__post_init__()
        if self.kind not in TOKEN_POOLINGS:
            raise FieldError('pooling', self.kind, f'no such pooling of tokens; {suggestion(self.kind, TOKEN_POOLINGS)}')

    @nn.compact
    def __call__(self, x):
        if self.kind == 'cls':
            return x[:, 0]
        if self.kind in ('mean', 'cls_mean'):
            mean = x[:, self.prefix:].mean(axis=1, dtype=jnp.float32).astype(x.dtype)
            return mean if self.kind == 'mean' else jnp.concatenate([x[:, 0], mean], axis=-1)
        if self.kind == 'sequence':
            weights = jax.nn.softmax(Projection((1,), ('embed', None), dtype=self.dtype, name='weight')(x).astype(jnp.float32), axis=1)
            return (weights * x.astype(jnp.float32)).sum(axis=1).astype(x.dtype)  # [B, T, 1] [B, T, D]
        B, _, D = x.shape
        query = self.param('query', partitioned(nn.initializers.normal(0.02), (None, 'embed')), (1, D)).astype(self.dtype)
        attention = CrossAttention(D, self.heads, bias=True, dtype=self.dtype, name='attention')
        z, _ = attention(jnp.broadcast_to(query, (B, 1, D)), memory=attention.read(x))
        network = FeedForward(bias=True, dtype=self.dtype, name='feed_forward')
        return (z + network(layer_norm(True, self.dtype, 'norm', self.epsilon)(z)))[:, 0]
