"""Folders of images: read lazily, batched whole, augmented as a function of (seed, step, place in the batch)."""

import dataclasses

import jax
import numpy as np
from PIL import Image
import pytest

from seqjax import data, models
from seqjax.data.images import lazy, sets
from seqjax.data.labelled import load_labelled
from seqjax.data.options import DataOptions
from seqjax.errors import FieldError, UserError
from seqjax.fields import whole
from tests.tiny import tiny_config

H, W, B = 5, 4, 6
COUNTS = dict(cat=13, dog=7)


def write_images(directory, counts=COUNTS, mode='L', size=(W, H), suffix='.png', seed=0):
    """Random images of every class; returns {name of the class: [their pixels as uint8]}."""
    rng, made = np.random.default_rng(seed), {}
    for name, count in counts.items():
        (directory / name).mkdir(parents=True)
        made[name] = [rng.integers(256, size=(*size[::-1], *((3,) if mode == 'RGB' else ())), dtype=np.uint8) for _ in range(count)]
        for i, pixels in enumerate(made[name]):
            Image.fromarray(pixels).save(directory / name / f'{i:03}{suffix}')
    return made


def options_of(source, **changes):
    return tiny_config('reader', data=dict(source=f'file:{source}', **changes)).data


@pytest.fixture
def folder(tmp_path):
    return tmp_path / 'images', write_images(tmp_path / 'images')


def keys(batch):
    assert batch['inputs'].dtype == np.uint8
    return sorted(zip(map(bytes, batch['inputs']), batch['targets'].tolist(), batch['weights'].tolist()))


def test_every_image_is_trained_on_once_an_epoch_and_measured_once(folder):
    directory, made = folder
    found = data.load(options_of(directory, held_out=0.25), 'classification')
    sizes = [len(found.rows[split]) for split in ('train', 'validation', 'test')]
    assert sizes == [15, 5, 0] and found.splits == ('train', 'validation') and found.codec.classes == ('cat', 'dog')
    training = found.training_batches(batch_size=5, seed=1)
    for epoch in range(2):
        batches = [training[3 * epoch + i] for i in range(3)]
        assert all(batch['inputs'].shape == (5, H, W, 1) and 'lengths' not in batch for batch in batches)
        seen = [key for batch in batches for key in keys(batch)]
        held_out = [key for batch in found.evaluation_batches(batch_size=3) for key in keys(batch) if key[2]]
        every = sorted((bytes(pixels), k, 1.0) for k, images in enumerate(made.values()) for pixels in images)
        assert sorted(seen + held_out) == every
    assert sum(batch['weights'].sum() for batch in found.evaluation_batches(batch_size=3)) == 5
    assert not found.evaluation_batches(batch_size=3)[1]['inputs'][2].any()  # fills up
    assert str(found) == '15 train, 5 validation images of 5 x 4 x 1'


def test_of_a_folder_only_what_a_batch_needs_is_opened(folder, monkeypatch):
    opened, decoded = [], lazy.pixels_of
    monkeypatch.setattr(lazy, 'pixels_of', lambda path, *rest: opened.append(path) or decoded(path, *rest))
    found = data.load(options_of(folder[0]), 'classification')
    found.facts(), found.sample(), found.for_model(), found.for_task(), str(found), found.steps, found.shapes, found.files()
    assert len(set(opened)) == 1 and len(opened) < 10  # the first image alone
    found.training_batches(batch_size=B, seed=0)[9]
    assert len(opened) < 10 + B


def test_processes_load_their_own_rows_of_the_same_batch(folder):
    found = data.load(options_of(folder[0]), 'classification')
    for make in (lambda **part: found.training_batches(batch_size=4, seed=2, **part),
                 lambda **part: found.evaluation_batches(batch_size=4, **part)):
        whole, parts = make(), [make(process=p, processes=2) for p in range(2)]
        for step in range(len(whole) if len(whole) < 9 else 9):
            joined = jax.tree.map(lambda *x: np.concatenate(x), *(part[step] for part in parts))
            jax.tree.map(np.testing.assert_array_equal, joined, whole[step])


def flipped(example, rng):
    return dataclasses.replace(example, inputs=example.inputs[:, ::-1] if rng.random() < 0.5 else example.inputs)


def noisy(example, rng):
    return dataclasses.replace(example, inputs=example.inputs / np.float32(255) + rng.normal(size=example.inputs.shape).astype(np.float32))


def test_transforms_are_functions_of_seed_and_step_and_leave_the_evaluation_alone(folder):
    options = whole(DataOptions, options_of(folder[0]))
    examples = sets.read_images([str(folder[0])], 'images', 'classification', options)
    plain = load_labelled(examples, 'classification', options)
    made = load_labelled(dataclasses.replace(examples, transforms=(flipped, noisy)), 'classification', options)
    one, same, other = (made.training_batches(batch_size=B, seed=seed) for seed in (3, 3, 4))
    before = plain.training_batches(batch_size=B, seed=3)
    for step in (11, 0, 5):  # in any order
        np.testing.assert_array_equal(one[step]['inputs'], same[step]['inputs'])
        np.testing.assert_array_equal(one[step]['targets'], before[step]['targets'])
        assert np.abs(one[step]['inputs'] - before[step]['inputs'] / 255).min() > 0 < np.abs(one[step]['inputs'] - other[step]['inputs']).min()
    in_threads = data.prefetched(one, 2)
    for step in range(2, 30):
        np.testing.assert_array_equal(next(in_threads)['inputs'], one[step]['inputs'])
    halves = [made.training_batches(batch_size=B, seed=3, process=p, processes=2)[7]['inputs'] for p in range(2)]
    np.testing.assert_array_equal(np.concatenate(halves), one[7]['inputs'])
    for batch, alike in zip(made.evaluation_batches(batch_size=B), plain.evaluation_batches(batch_size=B)):
        np.testing.assert_array_equal(batch['inputs'], alike['inputs'])


def test_sequences_may_be_transformed_too_and_made_no_longer():
    examples = [data.Example('abcdefg'[:n], str(n % 2)) for n in (2, 3, 4, 5, 6, 7) * 4]
    backwards = lambda example, rng: dataclasses.replace(example, inputs=example.inputs[::-1][:int(rng.integers(1, 8))])
    options = whole(DataOptions, dict(batching='pad'))
    load = lambda *transforms: load_labelled(data.Examples(examples, examples, [], '', transforms), 'classification', options)
    plain, made = (load(*each).training_batches(batch_size=4, seed=5) for each in ((), (backwards,)))
    for step in (3, 0):
        batch, uncut = made[step], plain[step]
        for row, n, full, length in zip(batch['inputs'], batch['lengths'], uncut['inputs'], uncut['lengths']):
            np.testing.assert_array_equal(row, np.pad(full[:length][::-1][:n], (0, len(full) - n)))
        jax.tree.map(np.testing.assert_array_equal, batch, load(backwards).training_batches(batch_size=4, seed=5)[step])
    longer = load(lambda example, rng: dataclasses.replace(example, inputs=example.inputs * 2))
    with pytest.raises(ValueError, match='longer than 7 positions'):
        longer.training_batches(batch_size=4, seed=5)[0]


@pytest.mark.parametrize('mode, suffix, C', [('L', '.png', 1), ('RGB', '.png', 3), ('RGB', '.jpg', 3), ('L', '.JPEG', 1)])
def test_kinds_of_files(tmp_path, mode, suffix, C):
    made = write_images(tmp_path / 'set', mode=mode, suffix=suffix)
    source = data.ClassFolders(tmp_path / 'set')
    example = source[len(made['cat'])]
    assert example.inputs.shape == (H, W, C) and example.target == 'dog' and example.inputs.dtype == np.uint8
    if suffix == '.png':
        np.testing.assert_array_equal(example.inputs, made['dog'][0].reshape(H, W, C))
    found = data.load(options_of(tmp_path / 'set', image_size=7), 'classification')
    assert found.training_batches(batch_size=2, seed=0)[0]['inputs'].shape == (2, 7, 7, C)
    again = data.ClassFolders(tmp_path / 'set', size=8)
    assert again[0].inputs.shape == (8, 8, C) and again.manifest() != source.manifest()


def test_parts_in_directories_and_what_changes_the_manifest(tmp_path):
    for seed, (part, counts) in enumerate(dict(train=COUNTS, dev=dict(cat=2, dog=1), test=dict(dog=3)).items()):
        write_images(tmp_path / part, counts, seed=seed)
    load = lambda: data.load(options_of(tmp_path / '{train,dev,test}'), 'classification')
    found = load()
    assert [len(found.rows[split]) for split in found.splits] == [20, 3, 3]
    assert load().facts() == found.facts()
    (tmp_path / 'test' / 'dog' / '002.png').unlink()
    assert load().facts()['sha256'] != found.facts()['sha256']
    write_images(tmp_path / 'more', dict(cow=1))
    (tmp_path / 'more' / 'cow').rename(tmp_path / 'dev' / 'cow')
    with pytest.raises(FieldError, match="has the label 'cow', which was not learned; there are: cat, dog"):
        load()


def test_a_few_training_images_are_drawn_without_opening_others(folder):
    found = data.load(options_of(folder[0], train_examples=6), 'classification')
    batch = found.training_batches(batch_size=6, seed=0)[0]
    assert len(found.rows['train']) == 6 and len(set(keys(batch))) == 6
    assert found.report == 'images: 20 images; 2 of 20 training records held out; 6 of 18 training sequences'


def test_files_that_are_no_images_of_a_class_are_counted_and_named(folder):
    directory, made = folder
    (directory / 'cat' / 'old').mkdir()
    (directory / 'bird').mkdir()
    for name in ('cat/x.gif', 'cat/old/1.png', 'notes.md'):
        (directory / name).write_bytes(b'x')
    found = data.load(options_of(directory), 'classification')
    assert found.report.startswith('images: 20 images, 4 other files left out: notes.md, bird/, cat/x.gif, ...; ')
    assert found.codec.classes == ('cat', 'dog')


def test_what_is_wrong_with_images_is_said_with_their_path(tmp_path):
    write_images(tmp_path / 'set')
    Image.new('L', (W + 1, H)).save(tmp_path / 'set' / 'dog' / '003.png')
    path = tmp_path / 'set' / 'dog' / '003.png'
    with pytest.raises(UserError, match=f'{path}: has another size than the first image: 5 x 5 pixels, and .*000.png has 5 x 4: set config.data.image_size'):
        data.ClassFolders(tmp_path / 'set')
    path.write_bytes(b'no image')
    with pytest.raises(UserError, match=f'{path}: is no image that can be read'):
        data.ClassFolders(tmp_path / 'set')
    path.unlink()
    (tmp_path / 'empty').mkdir()
    with pytest.raises(FieldError, match=r'has no folder with images \(.png, .jpg, .jpeg, .webp\); make one for every class'):
        data.load(options_of(tmp_path / 'empty', format='images'), 'classification')
    with pytest.raises(FieldError, match='the format images has no labels for regression'):
        data.load(options_of(tmp_path / 'set'), 'regression')
    for field, value in (('max_length', 7), ('batching', 'pad')):
        with pytest.raises(FieldError, match=f'data.{field}={value!r}: is for sequences, and the set has images'):
            data.load(options_of(tmp_path / 'set', **{field: value}), 'classification')


def test_a_reader_reads_the_rows_of_pixels_of_an_image():
    images = np.random.default_rng(0).random((3, H, W, 3), np.float32)
    model = models.build('reader', vocabulary=None, outputs=2, width=8)
    variables = model.init(jax.random.key(0), images)
    rows = images.reshape(3, H, W * 3)
    np.testing.assert_array_equal(model.apply(variables, images), model.apply(variables, rows))
    jax.tree.map(np.testing.assert_array_equal, variables, model.init(jax.random.key(0), rows))


