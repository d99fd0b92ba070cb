"""The digits against scikit-learn's own arrays."""

import collections

import numpy as np
from sklearn.datasets import load_digits

from seqjax import data
from seqjax.data.embedded.digits import digit_examples
from tests.tiny import tiny_config

DIGITS = load_digits()


def parts(**changes):
    made = digit_examples('classification', **dict(dict(held_out=0.1, seed=0), **changes))
    return made.train, made.validation, made.test


def test_every_image_is_in_one_part_with_its_digit():
    found = [(bytes(example.inputs), example.target) for part in parts() for example in part]
    expected = [(np.rint(image / 16 * 255).astype(np.uint8).tobytes(), str(digit)) for image, digit in zip(DIGITS.images, DIGITS.target)]
    assert sorted(found) == sorted(expected) and len(set(found)) == 1797
    assert all(example.inputs.shape == (8, 8, 1) and example.inputs.dtype == np.uint8 for example in parts()[0])


def test_a_fifth_is_for_testing_with_the_same_share_of_every_class():
    assert [len(part) for part in parts()] == [1294, 144, 359]
    for part in parts():
        counts = collections.Counter(example.target for example in part)
        assert len(counts) == 10 and max(counts.values()) - min(counts.values()) <= 8
    assert [len(part) for part in parts(held_out=0.5)] == [719, 719, 359]


def test_the_seed_deals_them_out():
    of = lambda part: [bytes(example.inputs) for example in part]
    assert of(parts()[2]) == of(parts(held_out=0.3)[2]) != of(parts(seed=1)[2])
    assert of(parts()[0]) == of(parts()[0])


def test_a_run_reads_them_as_pixels_of_8_bits():
    found = data.load(tiny_config('reader', data=dict(source='digits')).data, 'classification')
    batch = found.training_batches(batch_size=4, seed=0)[3]
    assert batch['inputs'].shape == (4, 8, 8, 1) and batch['inputs'].dtype == np.uint8 and 'lengths' not in batch
    assert str(found) == '1,294 train, 144 validation, 359 test images of 8 x 8 x 1'
