"""Colours against Pillow, which rounds to 8 bits, and against loops over pixels."""

import colorsys

import jax
import numpy as np
from PIL import Image, ImageEnhance, ImageOps
import pytest
from scipy import ndimage

from seqjax.ops.augmentation import colours

H, W = 9, 7
STEP = 1 / 255


def picture(C=3, seed=0):
    return np.random.default_rng(seed).integers(256, size=(H, W, C), dtype=np.uint8)


def of_pillow(change, pixels):
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    return np.asarray(change(image), np.float32).reshape(pixels.shape) / 255


def ours(change, pixels, *arguments):
    return np.asarray(jax.jit(change)((pixels / 255).astype(np.float32), *arguments))


@pytest.mark.parametrize('C', [1, 3])
@pytest.mark.parametrize('factor', [0.0, 0.3, 1.0, 1.7])
@pytest.mark.parametrize('name, enhance', [('brightness', ImageEnhance.Brightness), ('contrast', ImageEnhance.Contrast),
                                           ('saturation', ImageEnhance.Color), ('sharpness', ImageEnhance.Sharpness)])
def test_blends_are_those_of_pillow(name, enhance, factor, C):
    pixels = picture(C)
    expected = of_pillow(lambda image: enhance(image).enhance(factor), pixels)
    np.testing.assert_allclose(ours(getattr(colours, name), pixels, factor), expected, rtol=0, atol=2.01 * STEP)


@pytest.mark.parametrize('C', [1, 3])
def test_operations_of_pillow(C):
    pixels, exact = picture(C), 1e-6
    for change, expected, tolerance in (
            (lambda x: colours.posterise(x, 3), lambda image: ImageOps.posterize(image, 3), exact),
            (colours.equalise, ImageOps.equalize, exact),
            (colours.autocontrast, ImageOps.autocontrast, 1.01 * STEP),
            (lambda x: colours.solarise(x, 128 / 255 - 1e-4), lambda image: ImageOps.solarize(image, 128), exact)):
        np.testing.assert_allclose(ours(change, pixels), of_pillow(expected, pixels), rtol=0, atol=tolerance)
    if C == 3:
        grey = np.asarray(Image.fromarray(pixels).convert('L'), np.float32)[..., None] / 255
        np.testing.assert_allclose(ours(colours.greyscale, pixels), np.broadcast_to(grey, pixels.shape), rtol=0, atol=0.51 * STEP)


def test_equalising_one_color_and_few_pixels_changes_nothing():
    for pixels in (np.full((20, 20, 1), 77, np.uint8), picture(1)[:3, :3]):
        np.testing.assert_allclose(ours(colours.equalise, pixels), of_pillow(ImageOps.equalize, pixels), atol=1e-6)
    many = np.random.default_rng(1).integers(40, 90, size=(64, 64, 3), dtype=np.uint8)
    np.testing.assert_allclose(ours(colours.equalise, many), of_pillow(ImageOps.equalize, many), atol=1e-6)


@pytest.mark.parametrize('shift', [-0.4, 0.0, 0.1, 0.5])
def test_hue_against_a_loop_over_pixels(shift):
    pixels = picture()
    pixels[0] = 60  # grey has no hue
    expected = np.zeros((H, W, 3))
    for y in range(H):
        for x in range(W):
            h, s, v = colorsys.rgb_to_hsv(*(pixels[y, x] / 255))
            expected[y, x] = colorsys.hsv_to_rgb((h + shift) % 1, s, v)
    np.testing.assert_allclose(ours(colours.hue, pixels, shift), expected, rtol=0, atol=2e-6)
    grey = picture(1)
    np.testing.assert_array_equal(ours(colours.hue, grey, shift), (grey / 255).astype(np.float32))


@pytest.mark.parametrize('kernel, sigma', [(3, 0.1), (5, 1.3), (9, 2.0)])
def test_blur_against_scipy(kernel, sigma):
    pixels = picture()
    distance = np.arange(kernel) - kernel // 2
    weights = np.exp(-0.5 * (distance / sigma) ** 2)
    weights /= weights.sum()
    expected = pixels / 255
    for axis in (0, 1):
        expected = ndimage.correlate1d(expected, weights, axis=axis, mode='mirror')
    np.testing.assert_allclose(ours(lambda x: colours.gaussian_blur(x, sigma, kernel), pixels), expected, rtol=0, atol=2e-6)
