"""What stands on top of a network while it learns without labels, and is thrown away afterwards.

Shapes: D width of the features, M of the hidden layers, E of the embedding, K outputs.
"""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.feed_forward import gelu
from seqjax.nn.projection import Projection, fan_in, parameter, partitioned


class ProjectionHead(nn.Module):
    """z = W2 relu(W1 h), features [..., D] to an embedding [..., E]; a loss compares its directions.

    What augmentation changes is lost in z, and is still there in h: probes read h. Chen et al. 2020 (SimCLR), section 4.2.

    Args:
        hidden: M.
        features: E.
    """

    hidden: int = 512
    features: int = 128

    @nn.compact
    def __call__(self, h: jax.Array) -> jax.Array:
        h = jax.nn.relu(Projection((self.hidden,), ('embed', 'mlp'), kernel_init=fan_in(1, 2.0), name='in')(h))
        return Projection((self.features,), ('mlp', 'embed'), kernel_init=fan_in(), bias=False, name='out')(h)


class PrototypeHead(nn.Module):
    """The head of DINO: three layers, a direction of E numbers, and its cosine with K learned prototypes.

        z = unit(W3 gelu(W2 gelu(W1 h))),      y_k = z . v_k / |v_k|

    The last layer is weight-normalised with its sizes fixed to 1. Caron et al. 2021 (DINO), section 3.2 and appendix C.

    Args:
        hidden: M.
        bottleneck: E.
        outputs: K.
    """

    hidden: int = 512
    bottleneck: int = 128
    outputs: int = 1024

    @nn.compact
    def __call__(self, h: jax.Array) -> jax.Array:
        for name in ('in', 'middle'):
            h = gelu(Projection((self.hidden,), ('embed', 'mlp'), kernel_init=fan_in(), name=name)(h))
        z = ops.unit_length(Projection((self.bottleneck,), ('mlp', None), kernel_init=fan_in(), name='out')(h))
        init = partitioned(nn.initializers.normal(1.0), (None, 'embed'))
        prototypes = parameter(self, 'prototypes', init, (self.bottleneck, self.outputs))
        return ops.constrain(jnp.matmul(z, ops.unit_length(prototypes.T).T), 'batch', ..., 'embed')
