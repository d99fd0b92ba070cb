"""idx files that are written here, plain and compressed; what is broken about one is said with its name."""

import gzip
import re
import struct

import numpy as np
import pytest

from seqjax import data
from seqjax.data.images import idx
from seqjax.errors import FieldError, UserError
from tests.tiny import tiny_config

H, W = 5, 4


def idx_bytes(array, kind=8):
    return struct.pack(f'>BBBB{array.ndim}I', 0, 0, kind, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_idx(path, array):
    opened = gzip.open if path.suffix == '.gz' else open
    with opened(path, 'wb') as file:
        file.write(idx_bytes(array))


def write_set(directory, train=24, test=6, suffix='.gz', seed=0):
    """{'train': (images, labels), 'test': ...} as they are written."""
    directory.mkdir(exist_ok=True, parents=True)
    rng, made = np.random.default_rng(seed), {}
    for name, part, count in (('train', 'train', train), ('t10k', 'test', test)):
        made[part] = rng.integers(256, size=(count, H, W), dtype=np.uint8), np.resize(np.arange(3), count)
        write_idx(directory / f'{name}-images-idx3-ubyte{suffix}', made[part][0])
        write_idx(directory / f'{name}-labels-idx1-ubyte{suffix}', made[part][1])
    return made


def load(directory, task='classification', **changes):
    return data.load(tiny_config('reader', task=task, data=dict(source=f'file:{directory}', **changes)).data, task)


@pytest.mark.parametrize('suffix', ['', '.gz'])
def test_images_labels_and_parts(tmp_path, suffix):
    made = write_set(tmp_path / 'set', suffix=suffix)
    found = load(tmp_path / 'set', held_out=0.25)
    assert found.report == 'set: 24 images; set: 6 images for test; 6 of 24 training records held out'
    assert [len(found.rows[split]) for split in ('train', 'validation', 'test')] == [18, 6, 6]
    for split, part in (('train', 'train'), ('validation', 'train'), ('test', 'test')):
        pictures = {bytes(image): label for image, label in zip(*made[part])}
        for row in found.rows[split]:
            assert row['inputs'].shape == (H, W, 1) and row['inputs'].dtype == np.uint8
            assert found.codec.classes[row['targets']] == str(pictures[bytes(row['inputs'])])
    assert load(tmp_path / 'set', image_size=8).sample()['inputs'].shape == (1, 8, 8, 1)
    assert load(tmp_path / 'set').facts() == load(tmp_path / 'set').facts()
    write_set(tmp_path / 'set', suffix=suffix, seed=1)
    assert load(tmp_path / 'set').facts()['sha256'] != found.facts()['sha256']


def test_numbers_of_images_are_regressed(tmp_path):
    write_set(tmp_path / 'set')
    found = load(tmp_path / 'set', task='regression')
    assert found.rows['train'][0]['targets'].dtype == np.float32 and found.codec.scale == pytest.approx(0.8, abs=0.1)


def test_a_file_that_is_not_compressed_is_mapped(tmp_path):
    write_set(tmp_path / 'set', suffix='')
    assert isinstance(idx.read_idx(tmp_path / 'set' / 'train-images-idx3-ubyte'), np.memmap)


GOOD = idx_bytes(np.zeros((2, H, W)))
BROKEN = [
    (b'', 'is no idx file: it does not begin with two zero bytes'),
    (b'\x1f\x8b\x08\x00', 'is no idx file'),
    (GOOD[:9], 'ends in its header; copy the file again'),
    (GOOD[:-3], 'ends too early: 37 bytes of data, and its header says 40; copy the file again'),
    (GOOD + b'x', 'has more bytes than the 40 that its header says'),
    (idx_bytes(np.zeros((2, H, W)), kind=13), 'has numbers of type 0x0d, and unsigned bytes, 0x08, are read'),
    (struct.pack('>BBBB', 0, 0, 8, 9), 'has 9 axes and 1 to 4 are needed'),
    (struct.pack('>BBBB3I', 0, 0, 8, 3, 2 ** 32 - 1, 2 ** 32 - 1, 2 ** 32 - 1), 'ends too early: 0 bytes of data'),
    (idx_bytes(np.zeros((0, H, W))), 'has no images: its shape is 0 x 5 x 4 x 1'),
    (idx_bytes(np.zeros((2, 0, W))), 'has no pixels: its shape is 2 x 0 x 4 x 1'),
    (idx_bytes(np.zeros((2, 3))), 'has the shape 2 x 3, and images are [N, H, W] or [N, H, W, C]'),
    (idx_bytes(np.zeros((2, 3, 4, 2))), 'has 2 channels, and images have 1 or 3, the last axis'),
    (idx_bytes(np.zeros((3, H, W))), 'has 2 labels for 3 images'),
]


@pytest.mark.parametrize('content, sentence', BROKEN, ids=[sentence for _, sentence in BROKEN])
def test_what_is_broken_is_said_with_the_name_of_the_file(tmp_path, content, sentence):
    (tmp_path / 'train-images-idx3-ubyte').write_bytes(content)
    write_idx(tmp_path / 'train-labels-idx1-ubyte', np.arange(2))
    with pytest.raises(FieldError, match=f'data.source=.*{tmp_path}/train-[a-z]+-idx.-ubyte: .*{re.escape(sentence)}'):
        load(tmp_path)


def test_broken_compression_and_missing_files(tmp_path):
    write_set(tmp_path / 'set')
    images = tmp_path / 'set' / 'train-images-idx3-ubyte.gz'
    whole = images.read_bytes()
    for content, sentence in ((whole[:-20], 'ends here, and too early'), (b'\0\0' + whole[2:], 'the compressed data is damaged'),
                              (whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:], 'the compressed data is damaged .CRC')):
        images.write_bytes(content)
        with pytest.raises(FieldError, match=f'{images}: .*({sentence})'):
            load(tmp_path / 'set')
    images.write_bytes(gzip.compress(struct.pack('>BBBB3I', 0, 0, 8, 3, 2 ** 31, 2 ** 31, 4)))
    with pytest.raises(FieldError, match='says it has 18,446,744,073,709,551,616 bytes, and at most 4,294,967,296 are read'):
        load(tmp_path / 'set')
    images.write_bytes(whole)
    (tmp_path / 'set' / 'train-labels-idx1-ubyte.gz').unlink()
    with pytest.raises(FieldError, match='has no file of labels beside it'):
        load(tmp_path / 'set')
    write_set(tmp_path / 'set')
    write_idx(tmp_path / 'set' / 'emnist-train-images-idx3-ubyte', np.zeros((2, H, W)))
    with pytest.raises(UserError, match="has the idx files of several sets, '', 'emnist-'"):
        load(tmp_path / 'set')
