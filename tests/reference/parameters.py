"""Parameters in which nothing is 0, 1 or equal to anything else, so that no mistake can hide."""

from flax.core import meta
import jax
import numpy as np


def random_parameters(module, *inputs, seed=0, scale=0.5):
    """Parameters of `module` with the shapes that its init gives for `inputs`, every entry normal with this scale."""
    rng = np.random.default_rng(seed)
    shapes = meta.unbox(jax.eval_shape(module.init, jax.random.key(0), *inputs).get('params', {}))
    return jax.tree.map(lambda leaf: (scale * rng.standard_normal(leaf.shape)).astype(leaf.dtype), shapes)
