"""What is computed once from a text and kept for later runs: its hash, a tokenizer that was learned from it, its tokens.

An entry is a directory KIND_HASH below $SEQJAX_CACHE/tokens, or ~/.cache/seqjax/tokens, with an entry.json and .npy files. It
is written beside and renamed; one that is damaged is made again. Removing any of them costs time and nothing else.
"""

from collections.abc import Callable, Iterable
import contextlib
import hashlib
import json
import mmap
import os
import pathlib
import shutil
import tempfile
from typing import Any

import numpy as np

from seqjax.errors import UserError

VERSION = 1          # of all entries: those of another are not read
BLOCK = 1 << 16      # bytes
BLOCKS = 64          # of a file that are verified when it is opened, evenly spread; of a small file all
READS = 256          # slices of a mapped file after which its pages are given back


class Tokens:
    """Whole numbers in a memory-mapped .npy file. A slice is an int32 array in memory.

    Pages that were read count as memory of the process until they are given back, which happens every READS slices.
    """

    dtype = np.dtype(np.int32)

    def __init__(self, path: pathlib.Path) -> None:
        with open(path, 'rb') as file:
            version = np.lib.format.read_magic(file)
            assert version == (1, 0)
            (self._length,), _, dtype = np.lib.format.read_array_header_1_0(file)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._array = np.frombuffer(self._map, dtype, offset=file.tell()) if self._length else np.zeros(0, dtype)
        self._reads = 0

    def __len__(self) -> int:
        return self._length

    @property
    def size(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        self._reads += 1
        found = self._array[index].astype(np.int32)
        if self._reads % READS == 0 and hasattr(mmap, 'MADV_DONTNEED'):
            self._map.madvise(mmap.MADV_DONTNEED)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array.astype(dtype or np.int32)

    def tolist(self) -> list[int]:
        return self._array.tolist()


class Writer:
    """A .npy file of one axis that grows part by part."""

    def __init__(self, path: pathlib.Path, dtype: Any) -> None:
        self._file, self._dtype, self.length = open(path, 'wb'), np.dtype(dtype), 0
        self._write_header()

    def add(self, values: Any) -> None:
        values = np.asarray(values, self._dtype)
        self._file.write(values.data)
        self.length += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()  # as long as before: numpy leaves room for a larger number
        self._file.close()

    def _write_header(self) -> None:
        descr = np.lib.format.dtype_to_descr(self._dtype)
        np.lib.format.write_array_header_1_0(self._file, dict(descr=descr, fortran_order=False, shape=(self.length,)))


def remembered(kind: str, key: Any, make: Callable[[pathlib.Path], dict]) -> tuple[dict, pathlib.Path]:
    """(facts, directory) of an entry: the one that is there, or what `make` makes of it.

    key: all that decides about it, as JSON. make(directory) -> facts, which JSON must have: writes .npy files to it.
    """
    name = f'{kind}_{hashlib.sha256(json.dumps([VERSION, key]).encode()).hexdigest()[:32]}'
    home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
    folders = [pathlib.Path(os.environ.get('SEQJAX_CACHE') or pathlib.Path(home) / 'seqjax') / 'tokens',
               pathlib.Path(tempfile.gettempdir()) / f'seqjax_tokens_{os.getuid()}']  # where the first cannot be written to
    for folder in folders:
        if (facts := _open(folder / name)) is not None:
            return facts, folder / name
    for folder in folders:
        try:
            return _make(folder / name, make), folder / name
        except OSError as error:
            problem = error
    raise UserError(f'{folders[0]}: what is made of the text cannot be kept there ({problem}); set SEQJAX_CACHE to a directory '
                    'with room')


def _make(path, make):
    path.parent.mkdir(parents=True, exist_ok=True)
    writing = pathlib.Path(tempfile.mkdtemp(prefix=f'.{path.name}.', dir=path.parent))
    try:
        facts = json.loads(json.dumps(make(writing)))
        files = {file.name: _sample(file) for file in writing.iterdir()}
        (writing / 'entry.json').write_text(json.dumps(dict(facts=facts, files=files)), 'utf-8')
        for _ in range(2):  # another process may have made the same, or left something damaged
            with contextlib.suppress(OSError):
                writing.rename(path)
                break
            if _open(path) is None:
                shutil.rmtree(path, ignore_errors=True)
    finally:
        shutil.rmtree(writing, ignore_errors=True)
    if _open(path) is None:
        raise OSError('what was written is not what is read')
    return facts


def _open(path):
    """The facts of an entry, or None where it is not there or not as it was written."""
    try:
        saved = json.loads((path / 'entry.json').read_text('utf-8'))
        intact = all(_sample(path / name) == sample for name, sample in saved['files'].items())
        return saved['facts'] if intact else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sample(path):
    """[bytes of a file, the hash of BLOCKS blocks of it]."""
    size, digest = path.stat().st_size, hashlib.sha256()
    with open(path, 'rb') as file:
        for start in _starts(size):
            file.seek(start)
            digest.update(file.read(BLOCK))
    return [size, digest.hexdigest()]


def _starts(size) -> Iterable[int]:
    if size <= BLOCK * BLOCKS:
        return range(0, size, BLOCK)
    return [i * (size - BLOCK) // (BLOCKS - 1) for i in range(BLOCKS)]
