"""Images in idx files, the format of MNIST and its kin:

    DIR/train-images-idx3-ubyte.gz    DIR/train-labels-idx1-ubyte.gz    training
    DIR/t10k-images-idx3-ubyte.gz     DIR/t10k-labels-idx1-ubyte.gz     testing

with or without .gz; a file that is not compressed is memory-mapped. Four bytes say the type (8: unsigned bytes) and the
number of axes, then comes the length of every axis as a big-endian 32-bit number, then the data. Reference:
http://yann.lecun.com/exdb/mnist
"""

import gzip
import math
import os
import re
import struct
import zlib

import numpy as np

from seqjax.errors import UserError

MOST_BYTES = 1 << 32  # of an array that is read from a compressed file
PARTS = {'train': 'train', 'val': 'validation', 'valid': 'validation', 'validation': 'validation', 't10k': 'test', 'test': 'test'}
_NAME = re.compile(rf'(.*?)({"|".join(PARTS)})[-_](images|labels)[-.]idx(\d)-ubyte(\.gz)?')


def idx_files(directory: str | os.PathLike) -> dict[str, dict[str, str]]:
    """{'train': {'images': path, 'labels': path}, ...} of a directory; {} where it has no such files."""
    found, prefixes = {}, set()
    for name in sorted(os.listdir(os.path.expanduser(directory))):
        if match := _NAME.fullmatch(name):
            prefixes.add(match[1])
            found.setdefault(PARTS[match[2]], {}).setdefault(match[3], os.path.join(os.path.expanduser(directory), name))
    if len(prefixes) > 1:
        sets = ', '.join(map(repr, sorted(prefixes)))
        raise UserError(f'{directory}: has the idx files of several sets, {sets}; keep one of them there')
    return {part: found[part] for part in dict.fromkeys(PARTS.values()) if 'images' in found.get(part, {})}


def read_idx(path: str | os.PathLike, axes: int | None = None) -> np.ndarray:
    """The array of an idx file, uint8. axes: how many it must have."""
    refuse = lambda reason: UserError(f'{path}: {reason}')
    path = os.path.expanduser(path)
    compressed = str(path).endswith('.gz')
    try:
        with (gzip.open if compressed else open)(path, 'rb') as file:
            shape = _shape(refuse, file, axes)
            length = math.prod(shape)
            if not compressed:
                begin, there = file.tell(), os.path.getsize(path) - file.tell()
                _check_length(refuse, length, there)
                return np.memmap(path, np.uint8, 'r', begin, shape) if length else np.zeros(shape, np.uint8)
            if length > MOST_BYTES:
                raise refuse(f'says it has {length:,} bytes, and at most {MOST_BYTES:,} are read from a .gz; decompress it')
            data = file.read(length)
            _check_length(refuse, length, len(data) + len(file.read(1)))
    except FileNotFoundError:
        raise refuse('no such file') from None
    except EOFError:
        raise refuse('the compressed data ends here, and too early; copy the file again') from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise refuse(f'the compressed data is damaged ({error}); copy the file again') from None
    except OSError as error:
        raise refuse(f'cannot be read: {error.strerror or error}') from None
    return np.frombuffer(data, np.uint8).reshape(shape)


def _shape(refuse, file, axes):
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b'\0\0':
        raise refuse('is no idx file: it does not begin with two zero bytes')
    if magic[2] != 8:
        raise refuse(f'has numbers of type 0x{magic[2]:02x}, and unsigned bytes, 0x08, are read')
    if not 1 <= magic[3] <= 4 or axes and magic[3] != axes:
        raise refuse(f'has {magic[3]} axes and {axes or "1 to 4"} are needed')
    lengths = file.read(4 * magic[3])
    if len(lengths) < 4 * magic[3]:
        raise refuse('ends in its header; copy the file again')
    return struct.unpack(f'>{magic[3]}I', lengths)


def _check_length(refuse, length, there):
    if there < length:
        raise refuse(f'ends too early: {there:,} bytes of data, and its header says {length:,}; copy the file again')
    if there > length:
        raise refuse(f'has more bytes than the {length:,} that its header says; copy the file again')
