"""Images that are decoded once: the same pixels, no file opened again, what is broken named or counted, and the room bounded."""

import re

import numpy as np
import pytest

from seqjax import data
from seqjax.data.images import lazy
from seqjax.errors import FieldError, UserError
from tests.data.images.test_class_folders import COUNTS, options_of, write_images
from tests.data.images.test_malformed_images import GOOD_PNG, PIXELS, write_set


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path / 'cache'))


def test_pixels_are_the_same_and_files_are_opened_once(tmp_path, monkeypatch):
    write_images(tmp_path / 'set', mode='RGB')
    source = data.ClassFolders(tmp_path / 'set', size=9)
    plain = list(source)
    opened, pixels_of = [], lazy.pixels_of
    monkeypatch.setattr(lazy, 'pixels_of', lambda path, *rest: opened.append(path) or pixels_of(path, *rest))
    cached = data.ClassFolders(tmp_path / 'set', size=9, cached=True)
    assert len(opened) == sum(COUNTS.values())
    again = data.ClassFolders(tmp_path / 'set', size=9, cached=True)
    for i in (3, 0, 19, 7):
        for made in (cached, again):
            np.testing.assert_array_equal(made[i].inputs, plain[i].inputs)
            assert made[i].target == plain[i].target and made[i].inputs.dtype == np.uint8
    assert len(opened) == sum(COUNTS.values()) and cached.manifest() == data.ClassFolders(tmp_path / 'set', size=9).manifest()
    data.ClassFolders(tmp_path / 'set', size=8, cached=True)
    assert len(opened) == 2 * sum(COUNTS.values())


def test_a_run_reads_the_same_batches(tmp_path):
    write_images(tmp_path / 'set')
    one, other = (data.load(options_of(tmp_path / 'set', cache_images=cached), 'classification') for cached in (False, True))
    assert one.facts() == other.facts()
    for step in (5, 0):
        ours, theirs = (found.training_batches(batch_size=4, seed=1)[step] for found in (one, other))
        np.testing.assert_array_equal(ours['inputs'], theirs['inputs'])
    with pytest.raises(FieldError, match='data.cache_images=True: means nothing for the format folder'):
        (tmp_path / 'texts').mkdir()
        (tmp_path / 'texts' / 'a.txt').write_text('x\ny\n')
        data.load(options_of(tmp_path / 'texts', cache_images=True), 'classification')


def test_what_is_broken_is_found_at_the_start(tmp_path):
    write_set(tmp_path / 'set', {'damaged.png': PIXELS['damaged.png'][0]}, GOOD_PNG)
    path = tmp_path / 'set' / 'dog' / 'x_damaged.png'
    for _ in range(2):  # also from the cache
        with pytest.raises(UserError, match=f'^{re.escape(str(path))}: cannot be decoded: .*; repair or remove it, or set config.data.on_error=skip'):
            data.ClassFolders(tmp_path / 'set', cached=True)
        source = data.ClassFolders(tmp_path / 'set', on_error='skip', cached=True)
        assert len(source) == 16 and source.summary() == f'16 images (skipped 1: cannot be decoded, in {path})'
        assert all(example.weight == 1 and example.inputs.any() for example in source)


def test_the_room_is_bounded(tmp_path, monkeypatch):
    write_images(tmp_path / 'set')
    monkeypatch.setenv('SEQJAX_CACHE_GB', '0.0000003')
    with pytest.raises(UserError, match='all 20 images decoded have 0.0 gigabytes, and the cache may have 0.0; set SEQJAX_CACHE_GB'):
        data.ClassFolders(tmp_path / 'set', cached=True)
    assert not (tmp_path / 'cache').exists()
