"""A Transformer block whose layers are scaled and left out at random, as those of deep image Transformers are."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax.nn.projection import partitioned
from seqjax.nn.transformer import Block


class ScaledBlock(Block):
    """x + b_l / (1 - p_l) * lambda * layer(norm(x)), for each of its layers.

    layer_scale: lambda before the first step, a vector [D] that is learned (LayerScale, Touvron et al. 2021b); 0: there is none.
    stochastic_depth: in training the layers of block l of L are left out of an image with p_l = stochastic_depth * l / L, b_l is 0
    or 1 (Huang et al. 2016, section 3). depth: L.
    """

    layer_scale: float = 0.0
    stochastic_depth: float = 0.0
    depth: int = 1

    def branch(self, name, y, context, train):
        y = super().branch(name, y, context, train)
        if self.layer_scale:
            start = partitioned(nn.initializers.constant(self.layer_scale), ('embed',))
            y = y * self.param(f'{name}_scale', start, y.shape[-1:]).astype(y.dtype)
        if train and self.stochastic_depth:
            kept = 1 - self.stochastic_depth / self.depth * jnp.asarray(context.layer + 1, jnp.float32)
            there = jax.random.bernoulli(self.make_rng('dropout'), kept, (len(y),) + (1,) * (y.ndim - 1))
            y = y * jnp.where(there, 1 / kept, 0).astype(y.dtype)
        return y
