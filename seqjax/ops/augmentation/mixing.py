"""Mixed images with mixed targets: mixup and CutMix.

Rows 2i and 2i + 1 of a batch are mixed with one another, each with a share of 1 - lambda of the other, under the key of the
first. Batches are shuffled, so that this is as good as any other partner; and it is the same however the rows are dealt to
devices, as long as each has an even number.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError
from seqjax.ops.augmentation.random import within


def mixes(function: Callable) -> Callable:
    """A decorator: the augmentation is (keys [B], images [B, H, W, C], targets [B, classes]) -> (images, targets)."""
    function.mixes = True
    return function


@mixes
def mixup(keys: jax.Array, images: jax.Array, targets: jax.Array, alpha: float = 0.2) -> tuple[jax.Array, jax.Array]:
    """x = lambda x + (1 - lambda) x_partner, and so the targets, lambda from Beta(alpha, alpha) (Zhang et al. 2018)."""
    share = _share(keys, alpha, images.dtype)                                                         # [B]
    mix = lambda x: (lambda by: by * x + (1 - by) * partners(x))(share.reshape(-1, *[1] * (x.ndim - 1)))
    return mix(images), mix(targets)


@mixes
def cutmix(keys: jax.Array, images: jax.Array, targets: jax.Array, alpha: float = 1.0) -> tuple[jax.Array, jax.Array]:
    """A box of the partner in an image, its sides sqrt(1 - lambda) of the image's, and targets by the share of pixels (Yun et al. 2019).

    The middle of the box is anywhere in the image; what lies outside is cut off.
    """
    H, W = images.shape[-3:-1]
    share = _share(keys, alpha, images.dtype)
    middle = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, 1), (2,), images.dtype))(_of_pairs(keys))  # [B, 2]

    def box(share, middle):
        side = jnp.sqrt(1 - share)
        both = jnp.array([-0.5, 0.5]) * side
        ends = lambda length, at: jnp.clip(jnp.rint((at + both) * length).astype(jnp.int32), 0, length)
        (top, bottom), (left, right) = ends(H, middle[0]), ends(W, middle[1])
        return within((top, left, bottom - top, right - left), H, W)                                  # [H, W]

    inside = jax.vmap(box)(share, middle)                                                             # [B, H, W]
    kept = 1 - inside.mean(axis=(1, 2), dtype=targets.dtype)[:, None]
    pixels = inside.reshape(len(inside), *[1] * (images.ndim - 4), H, W, 1)
    return jnp.where(pixels, partners(images), images), kept * targets + (1 - kept) * partners(targets)


def partners(rows: jax.Array) -> jax.Array:
    """Row 2i + 1 in the place of row 2i, and the other way round."""
    if len(rows) % 2:
        raise FieldError('augment', len(rows), 'mixup and cutmix mix rows in pairs: the batch of a device needs an even number of rows')
    return rows.reshape(-1, 2, *rows.shape[1:])[:, ::-1].reshape(rows.shape)


def _of_pairs(keys):
    """[B]: for both rows of a pair the key of the first."""
    return keys[jnp.arange(len(keys)) // 2 * 2]


def _share(keys, alpha, dtype):
    """lambda [B]."""
    return jax.vmap(lambda key: jax.random.beta(jax.random.fold_in(key, 0), alpha, alpha, dtype=dtype))(_of_pairs(keys))
