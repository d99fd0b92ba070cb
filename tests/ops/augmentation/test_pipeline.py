"""Augmentations by name: what is parsed, what is refused, and that each has a key of its own."""

import jax
import numpy as np
import pytest

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.ops.augmentation import mixing, random

B, H, W = 6, 8, 8
IMAGES = np.random.default_rng(0).random((B, H, W, 3), np.float32)
KEYS = jax.random.split(jax.random.key(0), B)
EVERY = ('crop(padding=2), resized_crop(area=(0.2, 1.0)), flip, colour_jitter(brightness=0.8, p=0.8), greyscale, blur(sigma=[0.1, 2]), '
         'solarise(threshold=0.4), rand_augment(n=1, magnitude=5), erase(p=0.25)')


def test_names_and_arguments():
    made = ops.Augmentation.parse('crop(padding=4), flip, mixup(alpha=0.2)')
    assert made.steps == (('crop', (('padding', 4),)), ('flip', ()), ('mixup', (('alpha', 0.2),))) and made.mixes
    assert ops.Augmentation.parse('').steps == () and not ops.Augmentation.parse(EVERY).mixes
    assert ops.Augmentation.parse('blur(sigma=[0.1, 2])').steps == (('blur', (('sigma', (0.1, 2)),)),)
    assert ops.Augmentation.parse('flip(p=1)').steps == (('flip', (('p', 1.0),)),)  # a probability is no whole number to jax
    assert isinstance(ops.Augmentation.parse('flip(p=1)').steps[0][1][0][1], float)
    assert hash(made) == hash(ops.Augmentation.parse(' crop(padding=4),flip ,mixup(alpha=0.2) '))


def test_steps_follow_one_another_each_with_its_own_key():
    found, _ = jax.jit(ops.Augmentation.parse('crop(padding=2), flip, greyscale(p=0.5)'))(KEYS, IMAGES)
    for b in range(B):
        keys = [jax.random.fold_in(KEYS[b], place) for place in range(3)]
        expected = random.greyscale(keys[2], random.flip(keys[1], random.crop(keys[0], IMAGES[b], padding=2)), p=0.5)
        np.testing.assert_allclose(found[b], expected, atol=1e-6)


def test_all_of_them_and_rows_do_not_know_of_each_other():
    how = jax.jit(ops.Augmentation.parse(EVERY))
    found, _ = how(KEYS, IMAGES)
    assert found.shape == IMAGES.shape and found.dtype == np.float32 and np.isfinite(found).all()
    assert found.min() >= -1e-4 and found.max() <= 1 + 1e-4
    alone, _ = how(KEYS[2:4], IMAGES[2:4])
    np.testing.assert_allclose(alone, found[2:4], atol=1e-5)


def test_the_frames_of_a_video_are_changed_alike():
    videos = np.stack([IMAGES, IMAGES], axis=1)                                              # [B, 2, H, W, C]
    found, _ = ops.Augmentation.parse(EVERY)(KEYS, videos)
    assert found.shape == videos.shape
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    np.testing.assert_allclose(found[:, 0], ops.Augmentation.parse(EVERY)(KEYS, IMAGES)[0], atol=1e-5)


def test_mixing_comes_where_it_is_written():
    targets = np.eye(3, dtype=np.float32)[np.arange(B) % 3]
    images, mixed = ops.Augmentation.parse('flip, cutmix(alpha=2.0)')(KEYS, IMAGES, targets)
    flipped = jax.vmap(random.flip)(jax.vmap(lambda key: jax.random.fold_in(key, 0))(KEYS), IMAGES)
    expected = mixing.cutmix(jax.vmap(lambda key: jax.random.fold_in(key, 1))(KEYS), flipped, targets, alpha=2.0)
    np.testing.assert_array_equal(images, expected[0])
    np.testing.assert_array_equal(mixed, expected[1])


MISTAKES = {
    'crob': "augment='crob': there is no augmentation 'crob'; did you mean 'crop'?",
    'whirl': "there is no augmentation 'whirl'; choose one of: blur, colour_jitter, crop, cutmix, erase, flip, ",
    'crop(4)': "arguments have names, as in 'crop(padding=4)'; there is crop(padding: int = 4)",
    'crop(pad=4)': "crop has no argument 'pad'; there is crop(padding: int = 4)",
    'crop(padding=4.5)': "'padding=4.5' of crop is not possible; there is crop(padding: int = 4)",
    'crop(padding=-1)': "'padding=-1' of crop is not possible",
    'flip(p=2)': "'p=2' of flip is not possible",
    'flip(p=True)': "'p=True' of flip is not possible",
    'erase(area=0.5)': "'area=0.5' of erase is not possible",
    'erase(area=(0.5, 0.1))': "'area=(0.5, 0.1)' of erase is not possible",
    'resized_crop(ratio=(0, 1))': "'ratio=(0, 1)' of resized_crop is not possible",
    'rand_augment(magnitude=31)': "'magnitude=31' of rand_augment is not possible",
    'mixup(alpha=0)': "'alpha=0' of mixup is not possible",
    'blur(sigma=1e999)': "'sigma=1e309' of blur is not possible",
    'crop(padding=__import__("os").getpid())': 'of crop is no number',
    'crop(padding=4, padding=5)': "crop has the argument 'padding' twice",
    'crop(**{})': 'arguments have names',
    'ops.crop': "'ops.crop' is no augmentation; write names with arguments",
    '"crop"': 'is no augmentation; write names',
    'crop(': "is no list of augmentations; write names with arguments, as in 'crop(padding=4), flip'",
    'crop] + [flip': 'is no list of augmentations',
    'crop\0': 'is no list of augmentations',
}


@pytest.mark.parametrize('text', MISTAKES)
def test_what_is_not_understood_is_refused_by_its_name(text):
    with pytest.raises(FieldError) as error:
        ops.Augmentation.parse(text)
    assert MISTAKES[text] in str(error.value)


def test_a_stranger_registers_one():
    @ops.AUGMENTATIONS.register('noise_of_a_test')
    def noise(key, image, deviation: float = 0.1):
        return image + deviation * jax.random.normal(key, image.shape, image.dtype)

    try:
        found, _ = ops.Augmentation.parse('noise_of_a_test(deviation=0.5)')(KEYS, IMAGES)
        expected = [noise(jax.random.fold_in(key, 0), image, 0.5) for key, image in zip(KEYS, IMAGES)]
        np.testing.assert_allclose(found, np.stack(expected), atol=1e-6)
        with pytest.raises(FieldError, match=r'there is noise_of_a_test\(deviation: float = 0.1\)'):
            ops.Augmentation.parse('noise_of_a_test(variance=0.5)')
    finally:
        ops.AUGMENTATIONS._things.pop('noise_of_a_test')
