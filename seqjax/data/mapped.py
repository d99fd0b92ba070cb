"""Arrays in memory-mapped .npy files, and files of them that grow part by part."""

import contextlib
import fcntl
import math
import mmap
import pathlib
from typing import Any

import numpy as np

READS = 256  # slices of a mapped file after which its pages are given back


class Mapped:
    """An array in a memory-mapped .npy file. What is read of it is a copy in memory.

    Pages that were read count as memory of the process until they are given back, which happens every READS slices. The file
    has a shared lock (flock) as long as it is mapped.
    """

    def __init__(self, path: pathlib.Path) -> None:
        with open(path, 'rb') as file:
            with contextlib.suppress(OSError):  # file systems without locks
                fcntl.flock(file, fcntl.LOCK_SH)
            version = np.lib.format.read_magic(file)
            assert version == (1, 0)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            count = math.prod(shape)
            flat = np.frombuffer(self._map, dtype, count, offset=file.tell()) if count else np.zeros(0, dtype)
            self._array = flat.reshape(shape)
        self._reads = 0

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        self._reads += 1
        found = self._copy(self._array[index])
        if self._reads % READS == 0 and hasattr(mmap, 'MADV_DONTNEED'):
            self._map.madvise(mmap.MADV_DONTNEED)
        return found

    def _copy(self, values):
        return values.copy()


class Tokens(Mapped):
    """Whole numbers of any width in a memory-mapped .npy file. A slice is an int32 array in memory."""

    dtype = np.dtype(np.int32)

    @property
    def size(self) -> int:
        return len(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array.astype(dtype or np.int32)

    def tolist(self) -> list[int]:
        return self._array.tolist()

    def _copy(self, values):
        return values.astype(np.int32)


class Writer:
    """A .npy file that grows along its first axis, part by part. shape: of the other axes."""

    def __init__(self, path: pathlib.Path, dtype: Any, shape: tuple[int, ...] = ()) -> None:
        self._file, self._dtype, self._shape, self.length = open(path, 'wb'), np.dtype(dtype), shape, 0
        self._write_header()

    def add(self, values: Any) -> None:
        values = np.ascontiguousarray(values, self._dtype)
        self._file.write(values.data)
        self.length += len(values)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()  # as long as before: numpy leaves room for a larger number
        self._file.close()

    def _write_header(self) -> None:
        descr, shape = np.lib.format.dtype_to_descr(self._dtype), (self.length, *self._shape)
        np.lib.format.write_array_header_1_0(self._file, dict(descr=descr, fortran_order=False, shape=shape))
