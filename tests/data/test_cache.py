"""The cache is bounded: what was used longest ago goes first, and nothing that is in use."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from seqjax.data import cache
from seqjax.data.mapped import Mapped, Writer
from seqjax.errors import UserError

SIZE = 1000 * 8  # of the array in an entry


@pytest.fixture(autouse=True)
def small_cache(monkeypatch, tmp_path):
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path))
    monkeypatch.setenv('SEQJAX_CACHE_GB', str(3.9 * SIZE / 1e9))  # three entries


def make(key, age=0):
    """An entry that was used `age` seconds ago; returns its directory."""
    _, path = cache.remembered('numbers', key, lambda folder: np.save(folder / 'values.npy', np.arange(1000)) or dict(key=key))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_entries_that_were_used_longest_ago_are_removed():
    paths = [make(key, age=1000 - 100 * key) for key in range(3)]
    assert all(path.exists() for path in paths)
    assert cache.found('numbers', 0) == (dict(key=0), paths[0])  # used now
    paths.append(make(3))
    assert [path.exists() for path in paths] == [True, False, True, True]
    assert cache.found('numbers', 1) is None
    assert len(list(paths[0].parent.iterdir())) == 3  # nothing is left beside


def test_what_was_used_just_now_stays_and_so_does_a_large_one(monkeypatch):
    monkeypatch.setenv('SEQJAX_CACHE_GB', '0')
    old, young, newest = make(0, age=1000), make(1, age=cache.OPENING / 2), make(2)
    assert [path.exists() for path in (old, young, newest)] == [False, True, True]


@pytest.mark.parametrize('where', ['this process', 'another'])
def test_what_is_mapped_stays(where):
    path = make(0, age=1000)
    if where == 'another':
        code = ('import sys, pathlib; from seqjax.data.mapped import Mapped\n'
                'mapped = Mapped(pathlib.Path(sys.argv[1])); print(len(mapped), flush=True); input()')
        process = subprocess.Popen([sys.executable, '-c', code, str(path / 'values.npy')], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        assert process.stdout.readline() == '1000\n'
    else:
        mapped = Mapped(path / 'values.npy')
    others = [make(key, age=900 - key) for key in range(1, 5)]
    assert path.exists() and not others[0].exists()
    if where == 'another':
        process.communicate('\n')
    else:
        np.testing.assert_array_equal(mapped[::100], np.arange(0, 1000, 100))
        del mapped
    make(5)
    assert not path.exists()


def test_what_is_being_written_stays_for_a_day():
    begun, forgotten = (cache._folders()[0] / f'.numbers_{name}' for name in ('begun', 'forgotten'))
    make(0, age=5000)
    for path, age in ((begun, 3600), (forgotten, 2 * cache.LEFT_BEHIND)):
        path.mkdir()
        (path / 'values.npy').write_bytes(bytes(2 * SIZE))
        os.utime(path, (time.time() - age,) * 2)
    make(1)
    assert begun.exists() and not forgotten.exists()


def test_entries_of_another_version_count_too(monkeypatch):
    old = make(0, age=1000)
    monkeypatch.setattr(cache, 'VERSION', -1)
    assert make(0, age=900) != old
    for key in (1, 2):
        make(key)
    assert not old.exists()


@pytest.mark.parametrize('text', ['many', '-1', 'nan'])
def test_a_bound_that_is_no_number_is_refused_before_anything_is_made(text, monkeypatch):
    monkeypatch.setenv('SEQJAX_CACHE_GB', text)
    with pytest.raises(UserError, match=f'SEQJAX_CACHE_GB={text}: must be a number of gigabytes'):
        cache.remembered('numbers', 9, lambda folder: pytest.fail('it is made'))


def test_a_file_system_without_locks_keeps_everything(monkeypatch):
    def refuse(*arguments):
        raise OSError('no locks available')

    paths = [make(key, age=1000) for key in range(3)]
    monkeypatch.setattr(cache.fcntl, 'flock', refuse)
    assert len(Mapped(paths[0] / 'values.npy')) == 1000
    make(3)
    assert all(path.exists() for path in paths)


def test_arrays_of_several_axes_grow_part_by_part(tmp_path):
    parts = [np.arange(n * 6, dtype=np.float32).reshape(n, 2, 3) for n in (2, 0, 5)]
    writer = Writer(tmp_path / 'values.npy', np.float32, (2, 3))
    for part in parts:
        writer.add(part)
    writer.close()
    np.testing.assert_array_equal(np.load(tmp_path / 'values.npy'), np.concatenate(parts))
    mapped = Mapped(tmp_path / 'values.npy')
    found = mapped[1:4]
    assert found.dtype == np.float32 and found.flags.writeable and len(mapped) == 7
    np.testing.assert_array_equal(found, np.concatenate(parts)[1:4])
    with pytest.raises(IndexError):
        mapped[7]
