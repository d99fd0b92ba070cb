"""Images that are in memory or memory-mapped as one array, and what an .npz file of them may look like.

    images.npz    images [N, H, W] or [N, H, W, C] of uint8, labels [N]                     one part
                  train_images, train_labels, val_images, ..., test_images, test_labels     parts (MedMNIST)
                  x_train, y_train, x_test, y_test                                          parts (Keras)

Labels may be numbers or texts, and are then the names of classes; `captions` are texts, as are those of a file beside it,
`config.data.label_file`.
"""

from collections.abc import Mapping, Sequence
import hashlib
import math
import os
from typing import Any
import zipfile
import zlib

import numpy as np

from seqjax.data.images.decoding import resized
from seqjax.data.readers.examples import SPLITS, Example
from seqjax.data.readers.lines import Malformed
from seqjax.data.source import Source
from seqjax.errors import FieldError, UserError, suggestion

MOST_BYTES = 1 << 33  # of an array in memory
BLOCK = 1 << 16       # bytes of an array that its hash reads at once
IMAGES = 'images', 'x', 'data', 'image', 'inputs', 'sequences'
TARGETS = 'labels', 'y', 'label', 'targets', 'target', 'captions', 'caption', 'text'
NAMES = {'train': ('train', 'training'), 'validation': ('val', 'valid', 'validation', 'dev'), 'test': ('test',)}


class ImageArray(Source):
    """Images [N, H, W, C] of uint8 and their targets.

    Args:
        size: height and width that they are resized to; 0: as they are.
    """

    def __init__(self, images: np.ndarray, targets: Sequence[Any], size: int = 0) -> None:
        assert images.ndim == 4 and images.dtype == np.uint8 and len(images) == len(targets)
        self.images, self.size, self._targets = images, size, list(targets)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> Example:
        return Example(resized(np.asarray(self.images[i]), self.size), self._targets[i])

    @property
    def targets(self) -> Sequence[Any]:
        return self._targets

    def manifest(self) -> Mapping[str, Any]:
        """The hash of all pixels, or of blocks of them where they are many; the targets."""
        return dict(shape=[*self.images.shape], size=self.size, pixels=_hash(self.images),
                    targets=hashlib.sha256(repr(self._targets).encode()).hexdigest())


def checked_images(path: str, images: np.ndarray, name: str = '') -> np.ndarray:
    """Images as [N, H, W, C]; a UserError names the file."""
    what = f'{path}:{" " * bool(name)}{name}{":" * bool(name)}'
    if images.dtype != np.uint8:
        raise UserError(f'{what} has numbers of type {images.dtype}, and pixels are uint8 from 0 to 255; convert them')
    if images.ndim not in (3, 4):
        raise UserError(f'{what} has the shape {_shown(images.shape)}, and images are [N, H, W] or [N, H, W, C]')
    images = images[..., None] if images.ndim == 3 else images
    if images.shape[-1] not in (1, 3):
        raise UserError(f'{what} has {images.shape[-1]} channels, and images have 1 or 3, the last axis')
    if not all(images.shape):
        raise UserError(f'{what} has no {"images" if not len(images) else "pixels"}: its shape is {_shown(images.shape)}')
    return images


def checked_sequences(path: str, inputs: np.ndarray, name: str,
                      lengths: np.ndarray | None = None) -> list[np.ndarray | Malformed]:
    """Sequences of numbers [N, T] or [N, T, D] as float32 [T, D] each; a UserError names the file.

    One with a number that is not finite as a float32 is `Malformed`.

    lengths: of each, if they differ.
    """
    what = f'{path}: {name}:'
    if inputs.ndim not in (2, 3) or not all(inputs.shape):
        raise UserError(f'{what} has the shape {_shown(inputs.shape)}, and sequences are [N, T] or [N, T, D]')
    inputs = inputs[..., None] if inputs.ndim == 2 else inputs
    if lengths is None:
        lengths = np.full(len(inputs), inputs.shape[1])
    if lengths.shape != (len(inputs),) or lengths.dtype.kind not in 'iu' or lengths.min() < 1 or lengths.max() > inputs.shape[1]:
        raise UserError(f'{path}: lengths: are not one of 1 to {inputs.shape[1]} for each of {len(inputs):,} sequences')
    with np.errstate(over='ignore'):  # what is too large is infinite, and found
        rows = [row[:length].astype(np.float32) for row, length in zip(inputs, lengths)]
    for i, row in enumerate(rows):
        if not np.isfinite(row).all():
            step = int(np.argwhere(~np.isfinite(row))[0, 0]) + 1
            rows[i] = Malformed('has a number that is not finite', f'in step {step}')
    return rows


def checked_targets(path: str, targets: np.ndarray, count: int, name: str = '') -> list[Any]:
    """Labels or captions of `count` images, as texts or numbers; a UserError names the file."""
    what = f'{path}:{" " * bool(name)}{name}{":" * bool(name)}'
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if targets.ndim != 1 or targets.dtype.kind not in 'iufU':
        raise UserError(f'{what} has the shape {_shown(targets.shape)} and type {targets.dtype}, and labels are [N] of numbers or '
                        'texts')
    if len(targets) != count:
        raise UserError(f'{what} has {len(targets):,} labels for {count:,} images')
    return targets.tolist()


class Npz:
    """The arrays of an .npz file, each read when it is asked for, with bounds. path: as the user wrote it."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = zipfile.ZipFile(os.path.expanduser(path))
        except FileNotFoundError:
            raise UserError(f'{path}: no such file') from None
        except (OSError, zipfile.BadZipFile) as error:
            raise UserError(f'{path}: is no .npz file that can be read ({error}); copy or write it again') from None
        self._members = {info.filename.removesuffix('.npy'): info for info in self._file.infolist()}
        if len(self._members) > 1000:
            raise UserError(f'{path}: has {len(self._members):,} members, and at most 1,000 are read')

    def __iter__(self):
        return iter(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __getitem__(self, name: str) -> np.ndarray:
        refuse = lambda reason: UserError(f'{self.path}: {name}: {reason}')
        try:
            with self._file.open(self._members[name]) as file:
                version = np.lib.format.read_magic(file)
                read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
                shape, _, dtype = read(file)
            if dtype.hasobject:
                raise refuse('has Python objects, which are not read; save numbers or texts')
            if math.prod(shape) * dtype.itemsize > MOST_BYTES:
                raise refuse(f'has {math.prod(shape) * dtype.itemsize:,} bytes, and at most {MOST_BYTES:,} are read')
            with self._file.open(self._members[name]) as file:
                return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, KeyError, EOFError, OSError, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise refuse(f'cannot be read ({str(error)[:200]}); copy or write the file again') from None


def npz_parts(path: str, input_column: str = '', target_column: str = '') -> tuple[Npz, dict[str, tuple[str, str | None]]]:
    """(the file, {'train': (the name of its images, the name of its targets or None), ...}), 'train' alone for one part.

    Args:
        input_column, target_column: names of arrays, where they are not customary. With the first
            there is one part.
    """
    file = Npz(path)
    for field, name in (('input_column', input_column), ('target_column', target_column)):
        if name and name not in file:
            raise FieldError(f'data.{field}', name, f'{path} has no such array; {suggestion(name, [*file])}')
    parts = {}
    if input_column or any(name in file for name in IMAGES):
        images = input_column or next(name for name in IMAGES if name in file)
        targets = target_column or next((name for name in TARGETS if name in file), None)
        parts['train'] = images, targets
    for part in () if input_column else SPLITS[1:] if parts else SPLITS:
        for images, targets in [(a, b) for a in IMAGES for b in TARGETS]:
            for name in NAMES[part]:
                for both in ((f'{name}_{images}', f'{name}_{targets}'), (f'{images}_{name}', f'{targets}_{name}')):
                    if both[0] in file and (both[1] in file or part not in parts):
                        parts[part] = both[0], both[1] if both[1] in file else None
    if 'train' not in parts:
        raise UserError(f'{path}: has no images: arrays {", ".join(file) or "none"}; call them images and labels, or name them in '
                        'config.data.input_column and config.data.target_column')
    return file, parts


def _hash(array):
    """sha256 of the bytes of an array, or of 64 blocks of a large one, evenly spread."""
    digest = hashlib.sha256()
    flat, blocks = array.reshape(-1), 64
    if flat.size <= (1 << 28):
        digest.update(np.ascontiguousarray(flat))
        return digest.hexdigest()
    for i in range(blocks):
        begin = i * (flat.size - BLOCK) // (blocks - 1)
        digest.update(np.ascontiguousarray(flat[begin:begin + BLOCK]))
    return digest.hexdigest()


def _shown(shape):
    return ' x '.join(map(str, shape)) or 'of a number'
