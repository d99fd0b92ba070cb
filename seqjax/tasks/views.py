"""Views of images, for what is learned without labels: each is a random augmentation of its own.

Shapes: B rows, V views, H x W pixels of C channels.
"""

import jax
import jax.numpy as jnp

from seqjax import ops


def views(images: jax.Array, keys: jax.Array, augment: ops.Augmentation, count: int = 2, first: int = 0) -> jax.Array:
    """[B, V, H, W, C]: view v of row b is image b augmented with fold_in(keys[b], first + v).

    Args:
        images: [B, H, W, C], 0 to 1.
        keys: [B]; in evaluation those of `keys_of`, so that every evaluation sees the same views.
        augment: may change the size of an image.
        count: V.
        first: number of the first view, so that other views of the same rows are others.
    """
    of_view = lambda number: augment(jax.vmap(jax.random.fold_in, (0, None))(keys, number), images)[0]
    return jnp.stack([of_view(number) for number in range(first, first + count)], axis=1)


def keys_of(images: jax.Array) -> jax.Array:
    """[B] keys that depend on the pixels of each image and on nothing else: not on its place in a batch, nor on the mesh."""
    pixels = jnp.round(images.astype(jnp.float32) * 255).astype(jnp.uint32).reshape(len(images), -1)
    places = jnp.arange(pixels.shape[1], dtype=jnp.uint32) * jnp.uint32(0x9E3779B1) | jnp.uint32(1)
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), (pixels * places).sum(axis=1, dtype=jnp.uint32))


def merged(views: jax.Array) -> jax.Array:
    """[B, V, ...] -> [B V, ...], as a network reads them; the views of a row stay next to each other, and so on its device."""
    return views.reshape(-1, *views.shape[2:])


def parted(outputs: jax.Array, count: int) -> jax.Array:
    """[B V, ...] -> [B, V, ...]"""
    return outputs.reshape(-1, count, *outputs.shape[1:])
