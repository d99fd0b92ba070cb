"""Images in .npz files, by the names that others give their arrays."""

import io
import re
import zipfile

import numpy as np
import pytest

from seqjax import data
from seqjax.errors import FieldError
from tests.tiny import tiny_config

H, W = 5, 4
RNG = np.random.default_rng(0)


def images(count, C=None):
    return RNG.integers(256, size=(count, H, W, *([C] if C else [])), dtype=np.uint8)


def load(path, task='classification', **changes):
    return data.load(tiny_config('reader', task=task, data=dict(source=f'file:{path}', **changes)).data, task)


NAMED = {
    'one part': (dict(images='train', labels='train'), {}, ['train']),
    'keras': (dict(x_train='train', y_train='train', x_test='test', y_test='test'), {}, ['train', 'test']),
    'medmnist': (dict(train_images='train', train_labels='train', val_images='validation', val_labels='validation',
                      test_images='test', test_labels='test'), {}, ['train', 'validation', 'test']),
    'named': (dict(pictures='train', kinds='train', other='train'), dict(input_column='pictures', target_column='kinds'), ['train']),
}


@pytest.mark.parametrize('kind', NAMED)
@pytest.mark.parametrize('C', [None, 3])
def test_arrays_by_their_customary_names(tmp_path, kind, C):
    names, options, parts = NAMED[kind]
    counts, made = dict(train=20, validation=4, test=6), {}
    for name, part in names.items():
        pixels = name.startswith(('images', 'x_', 'pictures')) or name.endswith('images')
        made[name] = images(counts[part], C) if pixels else np.resize(['cat', 'dog'], counts[part])
    np.savez(tmp_path / 'set.npz', **made)
    found = load(tmp_path / 'set.npz', held_out=0.25, **options)
    sizes = dict(train=20 if 'validation' in parts else 15, validation=4 if 'validation' in parts else 5, test=6 if 'test' in parts else 0)
    assert {split: len(rows) for split, rows in found.rows.items()} == sizes and found.codec.classes == ('cat', 'dog')
    first = [name for name, part in names.items() if part == 'train'][:2]
    known = {bytes(image): label for image, label in zip(made[first[0]], made[first[1]])}
    for row in found.rows['train']:
        assert row['inputs'].shape == (H, W, C or 1) and known[bytes(row['inputs'])] == found.codec.classes[row['targets']]


def test_labels_are_numbers_or_columns_of_them(tmp_path):
    np.savez_compressed(tmp_path / 'set.npz', images=images(12), labels=np.resize([[7], [9]], (12, 1)))
    assert load(tmp_path / 'set.npz').codec.classes == ('7', '9')
    assert load(tmp_path / 'set.npz', task='regression').codec.offset == pytest.approx(8, abs=0.2)


def npy(array, shape=None):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, dict(descr=array.dtype.str, fortran_order=False, shape=shape or array.shape))
    return file.getvalue() + array.tobytes()


LABELS = np.resize([0, 1], 6)
BROKEN = {
    'is no .npz file that can be read': b'no zip',
    'images: cannot be read': dict(images=b'no array'),
    'images: has numbers of type int16, and pixels are uint8 from 0 to 255; convert them': dict(images=np.zeros((6, H, W), np.int16)),
    'images: has the shape 6 x 4, and images are': dict(images=np.zeros((6, W), np.uint8)),
    'images: has 4 channels': dict(images=np.zeros((6, H, W, 4), np.uint8)),
    'images: has no images': dict(images=np.zeros((0, H, W), np.uint8)),
    'labels: has 6 labels for 5 images': dict(images=images(5)),
    'labels: has the shape 6 x 2 and type': dict(labels=np.zeros((6, 2), int)),
    'labels: has Python objects, which are not read': dict(labels=npy(np.zeros(6, 'O'))),
    'has no images: arrays labels; call them images and labels': dict(images=None),
    'has no labels of images; call them labels': dict(labels=None),
    'images: has 281,474,976,710,656 bytes, and at most 8,589,934,592 are read': dict(images=npy(np.zeros(4, np.uint8), (1 << 16,) * 3)),
    'images: cannot be read (': dict(images=npy(np.zeros(40, np.uint8), (6, H, W))),
    'image 3: the label is empty': dict(labels=np.array(['a', 'b', 'a', '', 'a', 'b'])),
    'image 0: the label is a number and a text or a whole number is needed': dict(labels=np.array([0, 1, .5, 0, 1, 0])),
}


@pytest.mark.parametrize('sentence', BROKEN)
def test_what_is_broken_is_said_with_the_name_of_the_file(tmp_path, sentence):
    path, content = tmp_path / 'set.npz', BROKEN[sentence]
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, 'w') as file:
            for name, array in {**dict(images=images(6), labels=LABELS), **content}.items():
                if array is not None:
                    file.writestr(f'{name}.npy', array if isinstance(array, bytes) else npy(array))
    with pytest.raises(FieldError, match=f'data.source=.*{re.escape(str(path))}: .*{re.escape(sentence)}'):
        load(path)


def test_a_damaged_member_and_a_name_that_is_not_there(tmp_path):
    path = tmp_path / 'set.npz'
    np.savez(path, images=images(6), labels=LABELS)
    content = bytearray(path.read_bytes())
    content[300] ^= 255
    path.write_bytes(content)
    with pytest.raises(FieldError, match='images: cannot be read .*CRC'):
        load(path)
    np.savez(path, images=images(6), labels=LABELS)
    with pytest.raises(FieldError, match="data.target_column='label': .* has no such array; did you mean 'labels'"):
        load(path, target_column='label')
