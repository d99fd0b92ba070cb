"""RandAugment (Cubuk et al. 2020): operations of a fixed list, drawn for every image, all of one magnitude."""

import jax
import jax.numpy as jnp

from seqjax.ops.augmentation import colours, geometry

BINS = 30  # magnitudes are 0 to 30
OPERATIONS = ('identity', 'autocontrast', 'equalise', 'solarise', 'posterise', 'contrast', 'brightness', 'saturation', 'sharpness',
              'rotate', 'shear_x', 'shear_y', 'translate_x', 'translate_y')


def rand_augment(key: jax.Array, image: jax.Array, n: int = 2, magnitude: int = 9) -> jax.Array:
    """`n` of the OPERATIONS, each drawn from all of them, one after the other, with random signs.

    Magnitudes mean what they mean in torchvision: of 30, shears are up to 0.3, rotations up to 30 degrees, translations up to
    150 / 331 of a side, factors of blends 1 +- 0.9; solarisation begins at 1 - magnitude / 30, and posterisation keeps 8 to 4
    bits. Places are interpolated linearly, and black is outside.
    """
    for round_key in jax.random.split(key, n):
        drawn, sign = jax.random.split(round_key)
        operation = jax.random.randint(drawn, (), 0, len(OPERATIONS))
        image = apply(image, operation, magnitude / BINS, jnp.where(jax.random.bernoulli(sign), 1.0, -1.0))
    return image


def apply(image: jax.Array, operation: jax.Array, strength: float, sign: jax.Array) -> jax.Array:
    """One of the OPERATIONS by its number, with a strength from 0 to 1."""
    H, W, _ = image.shape
    by, signed = strength, (sign * strength).astype(image.dtype)
    factor = 1 + 0.9 * signed
    recoloured = {
        'autocontrast': lambda: colours.autocontrast(image), 'equalise': lambda: colours.equalise(image),
        'solarise': lambda: colours.solarise(image, 1 - by), 'posterise': lambda: colours.posterise(image, 8 - round(4 * by)),
        'contrast': lambda: colours.contrast(image, factor), 'brightness': lambda: colours.brightness(image, factor),
        'saturation': lambda: colours.saturation(image, factor), 'sharpness': lambda: colours.sharpness(image, factor)}
    image = jax.lax.switch(operation, [recoloured.get(name, lambda: image) for name in OPERATIONS])
    # All maps of places are affine: one lookup of pixels for whichever was drawn.
    is_drawn = lambda name: (operation == OPERATIONS.index(name)).astype(image.dtype) * signed
    moved = geometry.shift_and_shear(is_drawn('translate_y') * (150 / 331 * H), is_drawn('translate_x') * (150 / 331 * W),
                                     0.3 * is_drawn('shear_y'), 0.3 * is_drawn('shear_x'))
    matrix = jnp.where(operation == OPERATIONS.index('rotate'), geometry.rotation(30 * signed), moved)
    return jnp.where(operation >= OPERATIONS.index('rotate'), geometry.affine(image, matrix), image)
