"""Random augmentations of one image: (key, image float32 [H, W, C] from 0 to 1) -> image. Arguments have the usual values as defaults."""

import math

import jax
import jax.numpy as jnp

from seqjax.ops.augmentation import colours, geometry


def crop(key: jax.Array, image: jax.Array, padding: int = 4) -> jax.Array:
    """A box of the image's own size, out of the image with `padding` black pixels at every side (He et al. 2016, section 4.2)."""
    padded = jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)))
    top, left = jax.random.randint(key, (2,), 0, 2 * padding + 1)
    return jax.lax.dynamic_slice(padded, (top, left, jnp.zeros_like(top)), image.shape)


def resized_crop(key: jax.Array, image: jax.Array, size: int = 0, area: tuple[float, float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3 / 4, 4 / 3)) -> jax.Array:
    """A box of a random share of the image's area and of a random ratio of its sides, resized (Szegedy et al. 2015, section 6).

    The logarithm of width / height is uniform. Here we differ from torchvision: a box that is wider or higher than the image
    is cut, and not drawn again.

    Args:
        size: height and width of the result; 0: those of the image.
        area: least and largest share of the area.
        ratio: least and largest width / height.
    """
    H, W, _ = image.shape
    top, left, height, width = random_box(key, H, W, area, ratio)
    return geometry.crop_and_resize(image, top, left, height, width, (size or H, size or W))


def flip(key: jax.Array, image: jax.Array, p: float = 0.5, vertical: bool = False) -> jax.Array:
    """Mirrored with probability p: left to right, or upside down."""
    return jnp.where(jax.random.bernoulli(key, p), image[::-1] if vertical else image[:, ::-1], image)


def colour_jitter(key: jax.Array, image: jax.Array, brightness: float = 0.4, contrast: float = 0.4, saturation: float = 0.4,
                  hue: float = 0.1, p: float = 1.0) -> jax.Array:
    """With probability p brightness, contrast and saturation by factors from 1 - x to 1 + x each, and the hue turned by up to `hue` of a
    circle, in this order (Howard 2013; Chen et al. 2020, appendix A)."""
    chosen, *keys = jax.random.split(key, 5)
    changed = image
    for k, change, by in zip(keys, (colours.brightness, colours.contrast, colours.saturation), (brightness, contrast, saturation)):
        if by:
            changed = change(changed, jax.random.uniform(k, (), image.dtype, max(0.0, 1 - by), 1 + by))
    if hue:
        changed = colours.hue(changed, jax.random.uniform(keys[3], (), image.dtype, -hue, hue))
    return jnp.where(jax.random.bernoulli(chosen, p), changed, image)


def greyscale(key: jax.Array, image: jax.Array, p: float = 0.2) -> jax.Array:
    """Grey with probability p."""
    return jnp.where(jax.random.bernoulli(key, p), colours.greyscale(image), image)


def blur(key: jax.Array, image: jax.Array, p: float = 0.5, sigma: tuple[float, float] = (0.1, 2.0), kernel: int = 0) -> jax.Array:
    """With probability p a Gaussian blur of a random width (Chen et al. 2020, appendix A).

    Args:
        sigma: least and largest standard deviation in pixels.
        kernel: pixels of a side, one more where it is even; 0: about a tenth of the image, and at least 3.
    """
    chosen, drawn = jax.random.split(key)
    kernel = (kernel or max(3, min(image.shape[:2]) // 10)) // 2 * 2 + 1
    width = jax.random.uniform(drawn, (), image.dtype, *sigma)
    return jnp.where(jax.random.bernoulli(chosen, p), colours.gaussian_blur(image, width, kernel), image)


def solarise(key: jax.Array, image: jax.Array, p: float = 0.2, threshold: float = 0.5) -> jax.Array:
    """With probability p inverted where it is at least the threshold."""
    return jnp.where(jax.random.bernoulli(key, p), colours.solarise(image, threshold), image)


def erase(key: jax.Array, image: jax.Array, p: float = 0.5, area: tuple[float, float] = (0.02, 0.33),
          ratio: tuple[float, float] = (0.3, 3.3), value: float = 0.0) -> jax.Array:
    """With probability p a box set to a value (random erasing, Zhong et al. 2020)."""
    chosen, drawn = jax.random.split(key)
    box = random_box(drawn, *image.shape[:2], area, ratio)
    inside = within(box, *image.shape[:2]) & jax.random.bernoulli(chosen, p)
    return jnp.where(inside[..., None], jnp.asarray(value, image.dtype), image)


def random_box(key: jax.Array, H: int, W: int, area: tuple[float, float], ratio: tuple[float, float]) -> tuple[jax.Array, ...]:
    """(top, left, height, width), whole numbers, of a box with a random share of the area and ratio of its sides."""
    of_area, of_ratio, of_place = jax.random.split(key, 3)
    share = jax.random.uniform(of_area, (), jnp.float32, *area) * (H * W)
    sides = jnp.exp(jax.random.uniform(of_ratio, (), jnp.float32, *map(math.log, ratio)))
    height = jnp.clip(jnp.rint(jnp.sqrt(share / sides)).astype(jnp.int32), 1, H)
    width = jnp.clip(jnp.rint(jnp.sqrt(share * sides)).astype(jnp.int32), 1, W)
    place = jax.random.uniform(of_place, (2,))
    begin = lambda at, room: jnp.minimum((at * (room + 1).astype(jnp.float32)).astype(jnp.int32), room)
    return begin(place[0], H - height), begin(place[1], W - width), height, width


def within(box: tuple[jax.Array, ...], H: int, W: int) -> jax.Array:
    """[H, W]: whether a pixel is in the box (top, left, height, width)."""
    top, left, height, width = box
    y, x = jnp.arange(H)[:, None], jnp.arange(W)[None, :]
    return (y >= top) & (y < top + height) & (x >= left) & (x < left + width)
