"""Where the pixels of an image stand: cropping, resizing and affine maps of float32 [H, W, C]."""

import jax
import jax.numpy as jnp
from jax.scipy.ndimage import map_coordinates


def resize_weights(length: int, size: int, begin: jax.Array, count: jax.Array, dtype: jnp.dtype = jnp.float32) -> jax.Array:
    """[size, length]: pixels `begin` to `begin + count` of an axis of `length`, resized to `size` with a triangle filter.

    The filter is `count / size` pixels wide where the axis gets shorter (antialiasing), and one where it gets longer, as in
    Pillow's BILINEAR; nothing outside of the crop is read. Both numbers may be traced.
    """
    scale = count / size
    support = jnp.maximum(scale, 1)
    centre = begin + (jnp.arange(size, dtype=dtype)[:, None] + 0.5) * scale                       # [size, 1]
    pixel = jnp.arange(length, dtype=dtype)[None, :]                                              # [1, length]
    weights = jnp.maximum(0, 1 - jnp.abs(pixel + 0.5 - centre) / support)
    weights = jnp.where((pixel >= begin) & (pixel < begin + count), weights, 0)
    return weights / weights.sum(axis=1, keepdims=True)


def crop_and_resize(image: jax.Array, top: jax.Array, left: jax.Array, height: jax.Array, width: jax.Array,
                    size: tuple[int, int]) -> jax.Array:
    """The box [top : top + height, left : left + width] resized to `size` (H, W). The numbers of the box are whole."""
    H, W, _ = image.shape
    as_float = lambda x: jnp.asarray(x, image.dtype)
    rows = resize_weights(H, size[0], as_float(top), as_float(height), image.dtype)
    columns = resize_weights(W, size[1], as_float(left), as_float(width), image.dtype)
    return jnp.einsum('hH,HWc,wW->hwc', rows, image, columns, precision='highest')


def affine(image: jax.Array, matrix: jax.Array, fill: float = 0.0) -> jax.Array:
    """Pixel (y, x) of the result is the image at matrix @ (y, x, 1), bilinear; both are counted from the middle of the image.

    Args:
        image: [H, W, C].
        matrix: [2, 3], from places in the result to places in the image.
        fill: the value outside of the image.
    """
    H, W, C = image.shape
    middle = jnp.array([(H - 1) / 2, (W - 1) / 2], image.dtype)
    y, x = jnp.meshgrid(jnp.arange(H, dtype=image.dtype), jnp.arange(W, dtype=image.dtype), indexing='ij')
    places = jnp.stack([y - middle[0], x - middle[1], jnp.ones_like(y)])                          # [3, H, W]
    at = jnp.einsum('ij,jhw->ihw', matrix, places, precision='highest') + middle[:, None, None]  # [2, H, W]
    channels = [map_coordinates(image[..., c], [at[0], at[1]], order=1, mode='constant', cval=fill) for c in range(C)]
    return jnp.stack(channels, axis=-1)


def rotation(degrees: jax.Array) -> jax.Array:
    """The matrix of `affine` that turns an image against the clock."""
    angle = jnp.deg2rad(degrees)
    cos, sin, zero = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)
    return jnp.stack([jnp.stack([cos, sin, zero]), jnp.stack([-sin, cos, zero])])


def shift_and_shear(down: jax.Array, right: jax.Array, shear_y: jax.Array, shear_x: jax.Array) -> jax.Array:
    """The matrix of `affine` that moves an image by pixels, and its rows and columns along each other."""
    one = jnp.ones_like(jnp.asarray(down, jnp.float32))
    return jnp.stack([jnp.stack([one, one * shear_y, -one * down]), jnp.stack([one * shear_x, one, -one * right])])
