"""Sets of TFDS with images: built and read without TensorFlow, decoded when they are asked for."""

import io
import re

import numpy as np
from PIL import Image
import pytest

from seqjax import data
from seqjax.errors import FieldError, UserError
from tests.tiny import tiny_config

H, W, RNG = 6, 5, np.random.default_rng(0)
PIXELS = RNG.integers(256, size=(24, H, W, 3), dtype=np.uint8)


@pytest.fixture(scope='module')
def sets():
    tfds = pytest.importorskip('tensorflow_datasets')

    def make(title, splits, sizes=()):
        class Pictures(tfds.core.GeneratorBasedBuilder):
            """A few images."""

            name, VERSION = title, tfds.core.Version('1.0.0')

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(dict(
                    image=tfds.features.Image(shape=(None, None, 3)), label=tfds.features.ClassLabel(names=['cat', 'dog']),
                    caption=tfds.features.Text(), weight=tfds.features.Scalar(np.float32))))

            def _split_generators(self, dl_manager):
                return {split: self._generate_examples(numbers) for split, numbers in splits.items()}

            def _generate_examples(self, numbers):
                for i in numbers:
                    image = io.BytesIO()  # encoding an array would need TensorFlow
                    Image.fromarray(PIXELS[i] if i not in sizes else np.zeros((9, 9, 3), np.uint8)).save(image, 'PNG')
                    image.seek(0)
                    yield i, dict(image=image, label=-1 if i == 23 else i % 2, caption=f'a {"dog" if i % 2 else "cat"}', weight=i / 2)

        return Pictures

    return [make('seqjax_pictures', dict(train=range(16), test=range(16, 24))), make('seqjax_sizes', dict(train=range(16)), (3,))]


def load(name, directory, task='classification', **changes):
    options = tiny_config('reader', task=task, data=dict(source=f'tfds:{name}', directory=str(directory), **changes)).data
    return data.load(options, task)


def test_images_and_labels(sets, tmp_path):
    found = load('seqjax_pictures', tmp_path, held_out=0.25)
    assert [len(rows) for rows in found.rows.values()] == [12, 4, 7]
    assert found.report == 'tfds:seqjax_pictures: 23 images, 1 without a label left out'
    known = {bytes(pixels): i for i, pixels in enumerate(PIXELS)}
    seen = []
    for rows in found.rows.values():
        for row in rows:
            number = known[bytes(row['inputs'])]
            assert row['inputs'].dtype == np.uint8 and row['targets'] == number % 2
            seen.append(number)
    assert sorted(seen) == list(range(23)) and found.codec.classes == ('cat', 'dog')
    assert load('seqjax_pictures', tmp_path, held_out=0.25).facts() == found.facts()
    assert load('seqjax_pictures', tmp_path, image_size=8).sample()['inputs'].shape == (1, 8, 8, 3)


def test_numbers_and_captions(sets, tmp_path):
    assert load('seqjax_pictures', tmp_path, 'regression').rows['test'][1]['targets'] in {i / 2 for i in range(16, 24)}
    found = load('seqjax_pictures', tmp_path, 'clip', tokenizer='word')
    assert {found.codec.text(row['targets']) for row in found.rows['train']} == {'a cat', 'a dog'}


def test_what_is_not_there_or_of_another_size(sets, tmp_path):
    found = load('seqjax_sizes', tmp_path)
    with pytest.raises(UserError, match=re.escape('tfds:seqjax_sizes: image ')):
        for rows in found.rows.values():
            list(rows)
    with pytest.raises(FieldError, match='is no image of tfds:seqjax_pictures; write one of: image'):
        load('seqjax_pictures', tmp_path, input_column='picture')
