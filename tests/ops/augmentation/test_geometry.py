"""Resizing against Pillow and affine maps against scipy."""

import jax
import numpy as np
from PIL import Image
import pytest
from scipy import ndimage

from seqjax.ops.augmentation import geometry

H, W = 13, 11


def picture(C=2, seed=0):
    return np.random.default_rng(seed).random((H, W, C), np.float32)


@pytest.mark.parametrize('box', [(0, 0, 13, 11), (2, 3, 4, 5), (5, 1, 8, 3), (12, 10, 1, 1), (3, 0, 7, 11)])
@pytest.mark.parametrize('size', [(6, 6), (13, 11), (20, 31)])
def test_a_crop_that_is_resized_is_that_of_pillow(box, size):
    image, (top, left, height, width) = picture(), box
    found = np.asarray(jax.jit(geometry.crop_and_resize, static_argnums=5)(image, *box, size))
    for c in range(image.shape[-1]):
        cut = Image.fromarray(image[top:top + height, left:left + width, c])
        expected = np.asarray(cut.resize(size[::-1], Image.Resampling.BILINEAR))
        np.testing.assert_allclose(found[..., c], expected, rtol=0, atol=2e-6)


def test_boxes_may_differ_from_row_to_row():
    images = np.stack([picture(seed=seed) for seed in range(3)])
    boxes = np.array([[0, 0, 13, 11], [2, 3, 4, 5], [5, 1, 8, 3]])
    found = jax.vmap(lambda image, box: geometry.crop_and_resize(image, *box, (6, 5)))(images, boxes)
    for image, box, made in zip(images, boxes, found):
        np.testing.assert_allclose(made, geometry.crop_and_resize(image, *box.tolist(), (6, 5)), atol=1e-6)


MATRICES = {'turned': geometry.rotation(np.float32(25)), 'moved': geometry.shift_and_shear(2.0, -1.5, 0.0, 0.0),
            'sheared': geometry.shift_and_shear(0.0, 0.0, 0.2, -0.3), 'as it is': geometry.rotation(np.float32(0))}


@pytest.mark.parametrize('name', MATRICES)
def test_an_affine_map_is_that_of_scipy(name):
    image, matrix = picture(), np.asarray(MATRICES[name])
    middle = np.array([(H - 1) / 2, (W - 1) / 2])
    found = np.asarray(jax.jit(geometry.affine)(image, MATRICES[name]))
    for c in range(image.shape[-1]):
        offset = middle + matrix[:, 2] - matrix[:, :2] @ middle
        expected = ndimage.affine_transform(image[..., c], matrix[:, :2], offset, order=1, mode='grid-constant')
        np.testing.assert_allclose(found[..., c], expected, rtol=0, atol=1e-5)
    if name == 'as it is':
        np.testing.assert_allclose(found, image, atol=1e-6)


def test_directions():
    image = np.zeros((5, 5, 1), np.float32)
    image[2, 4] = 1  # at the right
    turned = np.asarray(geometry.affine(image, geometry.rotation(np.float32(90))))
    assert turned[0, 2, 0] == pytest.approx(1, abs=1e-5)  # against the clock: now on top, as Pillow's rotate has it
    assert np.asarray(Image.fromarray(image[..., 0]).rotate(90))[0, 2] == 1
    moved = np.asarray(geometry.affine(image, geometry.shift_and_shear(1.0, -2.0, 0.0, 0.0)))
    assert moved[3, 2, 0] == 1 and moved.sum() == 1
