"""GPT: a decoder-only Transformer language model (Radford et al. 2019)."""

from flax import linen
import jax
import jax.numpy as jnp

from seqjax import nn, ops


class GPT(linen.Module):
    """tokens [B, T] -> logits [B, T, V], pre-norm, learned positions, output weights tied to the embedding.

    Its generation state is a cache of keys and values, one (keys, values) a layer, and the step each row has reached.
    segments: [B, T] where rows hold several texts (see `data.packing`): a step looks only at its own text, and positions
    are counted from the first step of each.
    """

    vocabulary: int
    context_length: int
    width: int = 128
    depth: int = 4
    heads: int = 4
    dropout: float = 0.0
    bias: bool = False
    dtype: str = 'float32'

    tasks = ('language_model',)
    packs = True  # a row may hold several texts

    def __post_init__(self):
        super().__post_init__()
        nn.check_sizes(self)

    def setup(self):
        dtype = jnp.dtype(self.dtype)
        self.embedding = nn.Embedding(self.vocabulary, self.width, dtype=dtype)
        self.positions = self.param('positions', nn.partitioned(linen.initializers.normal(0.02), (None, 'embed')),
                                    (self.context_length, self.width))
        self.drop = linen.Dropout(self.dropout)
        # 2 * depth projections add to the residual stream; their scale keeps its variance at 1 (GPT-2, section 2.3).
        out_init = linen.initializers.normal(0.02 / (2 * self.depth) ** 0.5)
        part = dict(dropout=self.dropout, bias=self.bias, dtype=dtype, out_init=out_init)
        self.blocks = [nn.Block(nn.SelfAttention(self.heads, **part), nn.FeedForward(**part), self.bias, dtype,
                                name=f'block_{layer}') for layer in range(self.depth)]
        self.norm = nn.layer_norm(self.bias, dtype)

    def __call__(self, tokens, *, segments=None, train=False):
        T = tokens.shape[1]
        if T > self.context_length:
            raise ValueError(f'{T} tokens in a row, and context_length={self.context_length}')
        if segments is None:
            positions, mask = self.positions[:T], None
        else:
            positions = self.positions[ops.steps_of_segments(segments)]  # [B, T, D]
            mask = ops.causal_mask(T) & ops.same_segment(segments)  # [B, 1, T, T]
        return self._run(tokens, positions, (None,) * self.depth, None, train, mask)[1]

    @linen.nowrap
    def initial_state(self, batch_size, max_length):
        """An empty cache with room for max_length steps."""
        if max_length > self.context_length:
            raise ValueError(f'a cache of {max_length} steps, and context_length={self.context_length}')
        slots = jnp.zeros((batch_size, max_length, self.heads, self.width // self.heads), self.dtype)
        return ((slots, slots),) * self.depth, jnp.zeros(batch_size, jnp.int32)

    def extend(self, state, tokens, lengths=None):
        """Reads tokens [B, T] (row b only up to lengths[b]) and returns (state, logits [B, T, V])."""
        caches, position = state
        steps = position[:, None] + jnp.arange(tokens.shape[1])  # [B, T]
        caches, logits = self._run(tokens, self.positions.at[steps].get(mode='clip'), caches, position, train=False)
        return (caches, position + (tokens.shape[1] if lengths is None else lengths)), logits

    def _run(self, tokens, positions, caches, position, train, mask=None):
        x = self.embedding(tokens) + positions.astype(self.dtype)  # [B, T, D]
        x = self.drop(x, deterministic=not train)
        new_caches = []
        for block, cache in zip(self.blocks, caches):
            x, cache = block(x, cache, position, mask=mask, train=train)
            new_caches.append(cache)
        return tuple(new_caches), self.embedding.attend(self.norm(x))
