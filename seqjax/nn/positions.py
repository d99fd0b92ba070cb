"""How a Transformer knows the order of its steps: something is added to them, turns them, or is added to their scores."""

from flax import linen as nn
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError, suggestion
from seqjax.nn.projection import partitioned

POSITIONS = ('learned', 'sinusoidal', 'rotary', 'alibi', 'relative', 'none')


class Positions(nn.Module):
    """kind:
        'learned'      a vector for each of `length` steps, added to the inputs (Devlin et al. 2019; GPT-2)
        'sinusoidal'   sines and cosines, added to the inputs (Vaswani et al. 2017, section 3.5)
        'rotary'       queries and keys are turned by their steps, in `MultiHeadAttention` (Su et al. 2021)
        'alibi'        scores fall with the distance (Press et al. 2022)
        'relative'     scores have a learned bias for every bucket of distances (Raffel et al. 2020)
        'none'         the order makes no difference, but for a causal mask
    causal: of the buckets of 'relative', see `ops.relative_buckets`.
    """

    kind: str
    width: int
    heads: int
    length: int | None = None
    causal: bool = False
    buckets: int = 32
    limit: int = 128
    dtype: jnp.dtype = jnp.float32
    table_init: nn.initializers.Initializer = nn.initializers.normal(0.02)

    def __post_init__(self):
        super().__post_init__()
        if self.kind not in POSITIONS:
            raise FieldError('positions', self.kind, f'no such positions; {suggestion(self.kind, POSITIONS)}')
        if self.kind == 'learned' and not self.length:
            raise FieldError('positions', 'learned', 'need a length that no row exceeds, which this data has not; take '
                             "'sinusoidal' or another")
        if self.kind == 'sinusoidal' and self.width % 2:
            raise FieldError('width', self.width, 'must be even: sinusoidal positions are pairs of a sine and a cosine')

    def setup(self):
        if self.kind == 'learned':
            self.table = self.param('table', partitioned(self.table_init, (None, 'embed')), (self.length, self.width))
        if self.kind == 'relative':
            self.table = self.param('table', partitioned(self.table_init, (None, 'heads')), (self.buckets, self.heads))

    def __call__(self, steps):
        """What is added to inputs at `steps`, [T] or [B, T]: [T, D] or [B, T, D], or None."""
        if self.kind == 'learned':
            return jnp.take(self.table, steps, axis=0, mode='clip').astype(self.dtype)
        if self.kind == 'sinusoidal':
            return ops.sinusoidal_positions(steps, self.width).astype(self.dtype)
        return None

    def bias(self, S):
        """What is added to the scores of S keys, [H, 2 S - 1] by distance as `ops.attend` has it; or None."""
        if self.kind == 'alibi':
            return ops.alibi_bias(self.heads, S)
        if self.kind == 'relative':
            distances = jnp.arange(S - 1, -S, -1)  # step of the key minus step of the query
            buckets = ops.relative_buckets(distances, self.buckets, self.limit, self.causal)
            return jnp.take(self.table, buckets, axis=0).T
        return None
