"""Colours of an image, float32 [H, W, C] from 0 to 1: what does not move a pixel.

Blends are those of Pillow's ImageEnhance, image = degenerate + factor (image - degenerate), clipped to 0 ... 1: a factor of 1
changes nothing, 0 leaves the degenerate image, which is black for brightness, the mean grey for contrast, the grey image for
saturation and the smoothed one for sharpness.
"""

import jax
import jax.numpy as jnp

GREY = 0.299, 0.587, 0.114  # ITU-R 601-2, what Pillow's L is


def luma(image: jax.Array) -> jax.Array:
    """Grey [H, W, 1] = 0.299 R + 0.587 G + 0.114 B."""
    return image if image.shape[-1] == 1 else (image * jnp.array(GREY, image.dtype)).sum(axis=-1, keepdims=True)


def greyscale(image: jax.Array) -> jax.Array:
    """The grey of an image in all of its channels."""
    return jnp.broadcast_to(luma(image), image.shape)


def blend(degenerate: jax.Array, image: jax.Array, factor: jax.Array) -> jax.Array:
    """degenerate + factor (image - degenerate), clipped."""
    return jnp.clip(degenerate + factor * (image - degenerate), 0, 1)


def brightness(image: jax.Array, factor: jax.Array) -> jax.Array:
    """factor * image, clipped."""
    return blend(jnp.zeros_like(image), image, factor)


def contrast(image: jax.Array, factor: jax.Array) -> jax.Array:
    """Blended with the mean of its grey."""
    return blend(jnp.broadcast_to(luma(image).mean(), image.shape), image, factor)


def saturation(image: jax.Array, factor: jax.Array) -> jax.Array:
    """Blended with its grey."""
    return blend(greyscale(image), image, factor)


def sharpness(image: jax.Array, factor: jax.Array) -> jax.Array:
    """Blended with the image smoothed by [[1, 1, 1], [1, 5, 1], [1, 1, 1]] / 13, the border pixels as they are."""
    H, W, _ = image.shape
    if min(H, W) < 3:
        return image
    square = sum(image[y:H - 2 + y, x:W - 2 + x] for y in range(3) for x in range(3))
    smooth = jnp.asarray(image).at[1:-1, 1:-1].set((square + 4 * image[1:-1, 1:-1]) / 13)
    return blend(smooth, image, factor)


def hue(image: jax.Array, shift: jax.Array) -> jax.Array:
    """The hue turned by `shift` of a whole circle: RGB -> HSV -> RGB. Of one channel nothing changes."""
    if image.shape[-1] == 1:
        return image
    value, low = image.max(axis=-1), image.min(axis=-1)
    chroma = value - low
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    safe = jnp.where(chroma > 0, chroma, 1)
    # Not `value == red`: compiled, the two may be computed apart and differ in their last bit.
    sixth = jnp.where((red >= green) & (red >= blue), (green - blue) / safe,
                      jnp.where(green >= blue, 2 + (blue - red) / safe, 4 + (red - green) / safe))
    sixth = (jnp.where(chroma > 0, sixth, 0) + 6 * shift) % 6
    # f(n) = V - chroma max(0, min(k, 4 - k, 1)),  k = (n + sixth) mod 6, with n = 5, 3, 1 for red, green, blue
    k = (jnp.array([5, 3, 1], image.dtype) + sixth[..., None]) % 6
    return value[..., None] - chroma[..., None] * jnp.clip(jnp.minimum(k, 4 - k), 0, 1)


def solarise(image: jax.Array, threshold: jax.Array) -> jax.Array:
    """1 - image where it is at least the threshold."""
    return jnp.where(image >= threshold, 1 - image, image)


def posterise(image: jax.Array, bits: jax.Array) -> jax.Array:
    """The first bits of the eight of every value."""
    levels = jnp.rint(image * 255).astype(jnp.int32)
    dropped = 8 - jnp.asarray(bits, jnp.int32)
    return (((levels >> dropped) << dropped) / 255).astype(image.dtype)


def autocontrast(image: jax.Array) -> jax.Array:
    """Every channel stretched to 0 ... 1; one that has one value alone stays."""
    low, high = image.min(axis=(0, 1)), image.max(axis=(0, 1))
    return jnp.where(high > low, (image - low) / jnp.where(high > low, high - low, 1), image)


def equalise(image: jax.Array) -> jax.Array:
    """Every channel's 256 levels spread so that each has as many pixels, as Pillow's ImageOps.equalize does it."""
    return jnp.stack([_equalised(image[..., c]) for c in range(image.shape[-1])], axis=-1)


def gaussian_blur(image: jax.Array, sigma: jax.Array, kernel: int) -> jax.Array:
    """A Gaussian over `kernel` x `kernel` pixels, an odd number, the image mirrored at its border (without the border pixel)."""
    distance = jnp.arange(kernel, dtype=image.dtype) - kernel // 2
    weights = jnp.exp(-0.5 * (distance / sigma) ** 2)
    weights = weights / weights.sum()
    for axis in (0, 1):
        pad = [(kernel // 2, kernel // 2) if a == axis else (0, 0) for a in range(3)]
        padded = jnp.pad(image, pad, mode='reflect')
        image = sum(weights[i] * jax.lax.slice_in_dim(padded, i, i + image.shape[axis], axis=axis) for i in range(kernel))
    return image


def _equalised(channel):
    """[H, W]; levels[v] = (pixels below v + step / 2) // step, where step is all pixels but those of the brightest level / 255."""
    levels = jnp.rint(channel * 255).astype(jnp.int32)
    counts = (levels.reshape(-1, 1) == jnp.arange(256)).sum(axis=0)
    last = counts[jnp.max(levels)]
    step = (counts.sum() - last) // 255
    table = (jnp.cumsum(counts) - counts + step // 2) // jnp.maximum(step, 1)
    return jnp.where(step == 0, channel, (jnp.clip(table, 0, 255) / 255).astype(channel.dtype)[levels])
