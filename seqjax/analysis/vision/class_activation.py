"""Class activation maps: where in an image the evidence for a class lies, of a network that averages its last feature map.

    M_c = sum_d W_dc f_d [h, w],      logit_c = mean over places of M_c + b_c

Shapes: B images [H, W, C], h x w places, D channels of the last feature map.
"""

from typing import Any

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np


def class_activation(model: linen.Module, params: Any, images: Any, classes: Any) -> np.ndarray:
    """[B, h, w]: M of one class for every image.

    Args:
        model: with `feature_map`, the mean of which its `output` reads, as `models.ResNet` is.
        params: plain arrays.
        images: [B, H, W, C], as the model reads them.
        classes: [B], numbers.

    Reference: Zhou et al. 2016, "Learning Deep Features for Discriminative Localization", equation 2.
    """
    feature_map = jax.jit(lambda params: model.apply({'params': params}, images, method='feature_map'))(params)
    kernel = params['output']['kernel'][:, jnp.asarray(classes)]  # [D, B]
    return np.asarray(jnp.einsum('bhwd,db->bhw', feature_map, kernel, preferred_element_type=jnp.float32))
