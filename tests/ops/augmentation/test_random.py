"""What is drawn: distributions over many keys, and every result against a plain loop at what was drawn."""

import jax
import numpy as np
import pytest

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.ops.augmentation import colours, geometry, mixing, rand_augment, random

H, W, N = 8, 6, 400
IMAGE = np.random.default_rng(0).random((H, W, 3), np.float32) * 0.9 + 0.05
KEYS = jax.random.split(jax.random.key(0), N)


def many(change, image=IMAGE):
    return np.asarray(jax.jit(jax.vmap(lambda key: change(key, image)))(KEYS))


def test_a_padded_crop_is_one_of_all_boxes_and_each_comes_up():
    padded = np.pad(IMAGE, ((2, 2), (2, 2), (0, 0)))
    boxes = [padded[y:y + H, x:x + W].tobytes() for y in range(5) for x in range(5)]
    found = [np.ascontiguousarray(image).tobytes() for image in many(lambda key, image: random.crop(key, image, padding=2))]
    assert set(found) == set(boxes)
    assert max(map(found.count, boxes)) < 4 * N / 25


@pytest.mark.parametrize('vertical', [False, True])
def test_half_of_the_images_are_mirrored(vertical):
    found = many(lambda key, image: random.flip(key, image, vertical=vertical))
    mirrored = IMAGE[::-1] if vertical else IMAGE[:, ::-1]
    flipped = (found == mirrored).all(axis=(1, 2, 3))
    assert (flipped | (found == IMAGE).all(axis=(1, 2, 3))).all() and 0.4 < flipped.mean() < 0.6
    np.testing.assert_array_equal(many(lambda key, image: random.flip(key, image, p=1.0, vertical=vertical))[0], mirrored)


def test_boxes_have_the_area_and_the_ratio_that_was_asked_for_and_lie_inside():
    top, left, height, width = np.stack(jax.vmap(
        lambda key: random.random_box(key, 100, 80, (0.1, 0.5), (0.5, 2.0)))(KEYS))
    assert (top >= 0).all() and (left >= 0).all() and (top + height <= 100).all() and (left + width <= 80).all()
    inside = (height < 100) & (width < 80)  # others are cut
    assert 0.09 < (height * width)[inside].min() / 8000 < 0.13 and 0.4 < (height * width).max() / 8000 < 0.51
    assert 0.48 < (width / height)[inside].min() < 0.6 and 1.6 < (width / height)[inside].max() < 2.1
    assert top.min() == 0 and (top + height).max() == 100 and left.min() == 0


def test_a_resized_crop_is_the_box_that_was_drawn():
    found = many(lambda key, image: random.resized_crop(key, image, size=5))
    assert found.shape == (N, 5, 5, 3)
    for key, image in list(zip(KEYS, found))[:9]:
        box = [int(x) for x in random.random_box(key, H, W, (0.08, 1.0), (3 / 4, 4 / 3))]
        np.testing.assert_allclose(image, geometry.crop_and_resize(IMAGE, *box, (5, 5)), atol=1e-6)
    assert many(random.resized_crop).shape == (N, H, W, 3)


def test_jitter_changes_each_by_what_was_drawn():
    found = many(lambda key, image: random.colour_jitter(key, image, 0.4, 0.3, 0.2, 0.1, p=0.8))
    for key, image in list(zip(KEYS, found))[:12]:
        chosen, *keys = jax.random.split(key, 5)
        expected = IMAGE
        if jax.random.bernoulli(chosen, 0.8):
            factors = [jax.random.uniform(k, (), np.float32, 1 - x, 1 + x) for k, x in zip(keys, (0.4, 0.3, 0.2))]
            for change, factor in zip((colours.brightness, colours.contrast, colours.saturation), factors):
                expected = change(expected, factor)
            expected = colours.hue(expected, jax.random.uniform(keys[3], (), np.float32, -0.1, 0.1))
        np.testing.assert_allclose(image, expected, atol=2e-6)
    kept = (found == IMAGE).all(axis=(1, 2, 3)).mean()
    assert 0.13 < kept < 0.28
    brighter = many(lambda key, image: random.colour_jitter(key, image, 0.5, 0.0, 0.0, 0.0))[:, 0, 0, 0] / IMAGE[0, 0, 0]
    assert 0.5 <= brighter.min() < 0.55


@pytest.mark.parametrize('name, changed', [('greyscale', colours.greyscale), ('solarise', lambda x: colours.solarise(x, 0.5))])
def test_a_fifth_is_changed(name, changed):
    found = many(getattr(random, name))
    same, other = (np.isclose(found, x, atol=1e-6).all(axis=(1, 2, 3)) for x in (IMAGE, changed(IMAGE)))
    assert (same ^ other).all() and 0.13 < other.mean() < 0.28


def test_blur_has_a_width_in_the_range():
    found = many(lambda key, image: random.blur(key, image, p=1.0, sigma=(0.5, 1.5), kernel=5))
    for key, image in list(zip(KEYS, found))[:6]:
        sigma = jax.random.uniform(jax.random.split(key)[1], (), np.float32, 0.5, 1.5)
        np.testing.assert_allclose(image, colours.gaussian_blur(IMAGE, sigma, 5), atol=2e-6)
    assert 0.4 < (many(random.blur) == IMAGE).all(axis=(1, 2, 3)).mean() < 0.6


def test_what_is_erased_is_a_box():
    found = many(lambda key, image: random.erase(key, image, p=0.5, value=0.0))
    erased = (found == 0).all(axis=-1)
    shares = erased.mean(axis=(1, 2))
    assert 0.4 < (shares > 0).mean() < 0.6 and 0.25 < shares.max() < 0.45
    for mask, image in zip(erased, found):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert mask.sum() == len(rows) * len(columns)
        np.testing.assert_array_equal(image[~mask], IMAGE[~mask])


# ------------------------------------------------------------------------------------------------------ RandAugment

def test_every_operation_is_what_it_is_called():
    image, strength = IMAGE, 0.3
    up = {'identity': image, 'autocontrast': colours.autocontrast(image), 'equalise': colours.equalise(image),
          'solarise': colours.solarise(image, 0.7), 'posterise': colours.posterise(image, 7), 'contrast': colours.contrast(image, 1.27),
          'brightness': colours.brightness(image, 1.27), 'saturation': colours.saturation(image, 1.27),
          'sharpness': colours.sharpness(image, 1.27), 'rotate': geometry.affine(image, geometry.rotation(np.float32(9))),
          'shear_x': geometry.affine(image, geometry.shift_and_shear(0., 0., 0., 0.09)),
          'shear_y': geometry.affine(image, geometry.shift_and_shear(0., 0., 0.09, 0.)),
          'translate_x': geometry.affine(image, geometry.shift_and_shear(0., 0.3 * 150 / 331 * W, 0., 0.)),
          'translate_y': geometry.affine(image, geometry.shift_and_shear(0.3 * 150 / 331 * H, 0., 0., 0.))}
    assert set(up) == set(rand_augment.OPERATIONS)
    changed = jax.jit(rand_augment.apply)
    for number, name in enumerate(rand_augment.OPERATIONS):
        np.testing.assert_allclose(changed(image, number, strength, 1.0), up[name], atol=1e-5, err_msg=name)
    down = changed(image, rand_augment.OPERATIONS.index('brightness'), strength, -1.0)
    np.testing.assert_allclose(down, colours.brightness(image, 0.73), atol=1e-6)


def test_each_operation_is_drawn_as_often_and_magnitude_0_changes_little():
    found = many(lambda key, image: rand_augment.rand_augment(key, image, n=1, magnitude=9))
    alike = (np.isclose(found, IMAGE, atol=1e-6)).all(axis=(1, 2, 3)).mean()
    assert 0.03 < alike < 0.15  # the identity, of fourteen
    twice = many(lambda key, image: rand_augment.rand_augment(key, image, n=2, magnitude=15))
    assert np.isfinite(twice).all() and twice.min() >= -1e-5 and twice.max() <= 1 + 1e-5
    assert len({image.tobytes() for image in np.round(twice, 4)}) > N / 4


# ------------------------------------------------------------------------------------------------------------ mixing

B, CLASSES = 8, 3
IMAGES = np.random.default_rng(1).random((B, H, W, 1), np.float32)
TARGETS = np.eye(CLASSES, dtype=np.float32)[np.arange(B) % CLASSES]


def test_mixup_mixes_pairs_of_rows_by_one_share():
    images, targets = jax.jit(mixing.mixup)(KEYS[:B], IMAGES, TARGETS, 0.5)
    for b in range(B):
        other = b ^ 1
        share = float(jax.random.beta(jax.random.fold_in(KEYS[b & ~1], 0), 0.5, 0.5))
        np.testing.assert_allclose(images[b], share * IMAGES[b] + (1 - share) * IMAGES[other], atol=1e-5)
        np.testing.assert_allclose(targets[b], share * TARGETS[b] + (1 - share) * TARGETS[other], atol=1e-5)


def test_cutmix_pastes_a_box_and_counts_its_pixels():
    shares = []
    for seed in range(40):
        keys = jax.random.split(jax.random.key(seed), B)
        images, targets = map(np.asarray, mixing.cutmix(keys, IMAGES, TARGETS))
        for b in range(B):
            own, theirs = (images[b] == IMAGES[b])[..., 0], (images[b] == IMAGES[b ^ 1])[..., 0]
            assert (own ^ theirs).all()
            rows, columns = np.flatnonzero(theirs.any(axis=1)), np.flatnonzero(theirs.any(axis=0))
            assert theirs.sum() == len(rows) * len(columns)
            np.testing.assert_allclose(targets[b], own.mean() * TARGETS[b] + theirs.mean() * TARGETS[b ^ 1], atol=1e-6)
            shares.append(own.mean())
    assert 0.45 < np.mean(shares) < 0.75 and np.min(shares) < 0.15 and np.max(shares) > 0.95


def test_pairs_are_the_same_for_the_rows_of_any_device():
    whole = mixing.mixup(KEYS[:B], IMAGES, TARGETS)[0]
    halves = [mixing.mixup(KEYS[part], IMAGES[part], TARGETS[part])[0] for part in (slice(0, 4), slice(4, 8))]
    np.testing.assert_array_equal(whole, np.concatenate(halves))
    with pytest.raises(FieldError, match='needs an even number of rows'):
        mixing.mixup(KEYS[:3], IMAGES[:3], TARGETS[:3])


def test_shares_of_classes_are_targets_of_the_cross_entropy():
    logits, shares = np.random.default_rng(2).normal(size=(2, B, CLASSES)).astype(np.float32)
    shares = np.exp(shares) / np.exp(shares).sum(axis=-1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(ops.cross_entropy(logits, shares), -(shares * log_p).sum(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(ops.cross_entropy(logits, TARGETS, 0.1), ops.cross_entropy(logits, TARGETS.argmax(-1), 0.1), rtol=1e-5)
