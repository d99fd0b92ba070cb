"""Normalisation by the training part, against numpy."""


import numpy as np
import pytest

from seqjax import data
from seqjax.data.labelled import load_labelled
from seqjax.data.readers.examples import Example, Examples
from seqjax.data.statistics import channel_statistics
from seqjax.errors import FieldError
from tests.data.test_labelled import options
from tests.tiny import tiny_config

RNG = np.random.default_rng(0)


def images(count):
    return [Example(RNG.integers(200, size=(5, 4, 3), dtype=np.uint8), str(i % 2)) for i in range(count)]


def test_statistics_are_those_of_all_pixels():
    made = images(20)
    pixels = np.stack([example.inputs for example in made]) / 255
    mean, deviation = channel_statistics(made)
    np.testing.assert_allclose(mean, pixels.mean(axis=(0, 1, 2)), rtol=1e-9)
    np.testing.assert_allclose(deviation, pixels.std(axis=(0, 1, 2)), rtol=1e-9)
    few = np.stack([made[i].inputs for i in (0, 9, 19)]) / 255
    np.testing.assert_allclose(channel_statistics(made, most=3)[0], few.mean(axis=(0, 1, 2)), rtol=1e-9)
    lost = [*made, Example(np.full((5, 4, 3), 255, np.uint8), '0', weight=0.0)]
    assert channel_statistics(lost) == (mean, deviation)
    assert channel_statistics([Example(np.ones((3, 2), np.float32), '0')]) == ((1, 1), (1, 1))


@pytest.mark.parametrize('value', [0.1, 0.3, 7.7, 123.4])
def test_a_channel_that_never_changes_is_not_divided_by_what_rounding_leaves(value):
    frames = [Example(np.full((13, 1), value, np.float32), '0') for _ in range(100)]
    assert channel_statistics(frames)[1] == (1.0,)
    grey = [Example(np.full((8, 8, 3), [37, 200, 91], np.uint8), '0') for _ in range(100)]
    assert channel_statistics(grey)[1] == (1.0, 1.0, 1.0)


def test_a_small_deviation_beside_a_large_mean():
    x = (1e6 + RNG.normal(size=(50, 20, 1))).astype(np.float32)
    mean, deviation = channel_statistics([Example(row, '0') for row in x])
    np.testing.assert_allclose(deviation, x.astype(np.float64).std(), rtol=1e-9)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(), rtol=1e-12)


def test_images_are_normalised_on_the_device_by_what_the_codec_keeps():
    made = images(20)
    found = load_labelled(Examples(made, made, [], ''), 'classification', options(normalise=True, augment='flip'))
    mean, deviation = channel_statistics(made)
    assert found.rows['train'][0]['inputs'].dtype == np.uint8
    assert found.for_task() == dict(classes=('0', '1'), offset=0.0, scale=1.0, mean=mean, deviation=deviation, augment='flip')
    assert data.load_codec(found.codec.dumps()) == found.codec


def test_frames_are_normalised_where_the_set_says_so():
    made = [Example((RNG.normal(size=(n, 2)) * [3, 5] + [1, -2]).astype(np.float32), str(n % 2)) for n in (3, 4, 5, 6)]
    found = load_labelled(Examples(made, made, [], '', normalise=True), 'classification', options())
    mean, deviation = channel_statistics(made)
    for example, row in zip(made, found.rows['train']):
        np.testing.assert_allclose(row['inputs'], (example.inputs - mean) / deviation, rtol=1e-5, atol=1e-6)
    plain = load_labelled(Examples(made, made, [], ''), 'classification', options())
    np.testing.assert_array_equal(plain.rows['train'][0]['inputs'], made[0].inputs)


@pytest.mark.parametrize('how', ['rows', 'pixels', 'permuted'])
@pytest.mark.parametrize('normalise', [False, True])
def test_images_as_sequences(how, normalise):
    made = images(6)
    found = load_labelled(Examples(made, made, [], ''), 'classification', options(images_as=how, normalise=normalise, split_seed=3))
    row = found.rows['train'][2]['inputs']
    assert row.dtype == np.uint8 and row.shape == ((5, 12) if how == 'rows' else (20, 3))
    flat = made[2].inputs.reshape(row.shape)
    if how == 'permuted':
        assert sorted(map(bytes, row)) == sorted(map(bytes, flat)) and not (row == flat).all()
        other = load_labelled(Examples(made, made, [], ''), 'classification', options(images_as=how, split_seed=4))
        assert not (other.rows['train'][2]['inputs'] == row).all()
    else:
        np.testing.assert_array_equal(row, flat)
    assert data.load_codec(found.codec.dumps()).inputs(made[2].inputs).tolist() == row.tolist()
    if normalise:
        assert len(found.codec.mean) == row.shape[-1]


MISTAKES = [
    ('classification', dict(augment='flip', images_as='rows'), 'is for images, and config.data.images_as makes sequences of them'),
    ('regression', dict(augment='mixup'), 'mixes classes, and the set has none'),
]


@pytest.mark.parametrize('task, changed, sentence', MISTAKES)
def test_what_does_not_go_together_is_refused(task, changed, sentence):
    made = [Example(example.inputs, float(i)) if task == 'regression' else example for i, example in enumerate(images(6))]
    with pytest.raises(FieldError, match=sentence):
        load_labelled(Examples(made, made, [], ''), task, options(**changed))


@pytest.mark.parametrize('field, value', [('augment', 'flip'), ('normalise', True), ('images_as', 'rows')])
def test_what_is_for_images_is_refused_for_frames(field, value):
    made = [Example(np.ones((3, 2), np.float32), str(n)) for n in (0, 1)]
    with pytest.raises(FieldError, match=f'data.{field}=.*: is for images, and the set has none'):
        load_labelled(Examples(made, made, [], ''), 'classification', options(**{field: value}))


def test_an_augmentation_that_is_not_there_is_refused_before_data_is_read():
    from seqjax import config as configs

    config = tiny_config('reader', data=dict(source='digits', augment='crop(padding=1), flap'))
    with pytest.raises(FieldError, match="config.data.augment=.*: there is no augmentation 'flap'; did you mean 'flip'"):
        configs.validate(config)
