"""A folder of images for every class, read when they are asked for:

    DIR/cat/001.png    DIR/cat/002.jpg    DIR/dog/001.png    ...
"""

from collections.abc import Iterator, Mapping, Sequence
import functools
import hashlib
import os
from typing import Any

import numpy as np

from seqjax.data.readers.examples import SPLITS, Example, Examples
from seqjax.data.readers.splits import hold_out
from seqjax.data.source import Source
from seqjax.errors import FieldError, UserError

SUFFIXES = ('.png', '.jpg', '.jpeg')
GREY = ('1', 'L', 'LA')  # modes of Pillow that become one channel; others become three


class ClassFolders(Source):
    """The images below a directory, in the order of their classes and names.

    Args:
        directory: has a folder for every class.
        size: height and width that images are resized to; 0: all have one size as they are.
    """

    def __init__(self, directory: str | os.PathLike, size: int = 0) -> None:
        self.directory, self.size = os.path.expanduser(directory), size
        digest, self._paths, self._targets = hashlib.sha256(), [], []
        for name in class_folders(directory):
            for path, length in _images(os.path.join(self.directory, name)):
                digest.update(f'{name}/{os.path.basename(path)} {length}\n'.encode())
                self._paths.append(path)
                self._targets.append(name)
        self._digest = digest.hexdigest()

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, i: int) -> Example:
        path = self._paths[i]
        pixels = decoded(path, self.size, self._shape[-1] == 1)
        if pixels.shape != self._shape:
            shapes = [' x '.join(map(str, shape)) for shape in (pixels.shape, self._shape)]
            raise UserError(f'{path}: has {shapes[0]} pixels and channels, and {self._paths[0]} has {shapes[1]}; set '
                            'config.data.image_size to resize all images')
        return Example(pixels, self._targets[i])

    @property
    def targets(self) -> Sequence[str]:
        return self._targets

    def manifest(self) -> Mapping[str, Any]:
        """Names and sizes of all files."""
        return dict(images=len(self), files=self._digest, size=self.size)

    @functools.cached_property
    def _shape(self):
        """That of the first image, which all others have."""
        return decoded(self._paths[0], self.size).shape


def decoded(path: str | os.PathLike, size: int = 0, grey: bool | None = None) -> np.ndarray:
    """The pixels of an image file, 0 to 1: float32 [H, W, 1] or [H, W, 3].

    Args:
        size: H and W; 0: those of the file.
        grey: whether it has one channel; None: as the file has it.
    """
    from PIL import Image  # here: runs on texts need not wait for it

    try:
        with Image.open(path) as image:
            grey = image.mode in GREY if grey is None else grey
            image = image.convert('L' if grey else 'RGB')
            if size and image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            pixels = np.asarray(image, np.float32) / np.float32(255)
    except (OSError, SyntaxError, ValueError) as error:  # whatever Pillow finds wrong with a file
        raise UserError(f'{path}: is no image that can be read ({error}); repair or remove it') from None
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def class_folders(directory: str | os.PathLike) -> list[str]:
    """The names of the folders in a directory that begin with an image; [] where it is none of class folders."""
    with os.scandir(os.path.expanduser(directory)) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return [name for name in names if next(_images(os.path.join(os.path.expanduser(directory), name), False), None)]


def read_class_folders(paths: Sequence[str], task: str, *, held_out: float, seed: int, size: int = 0) -> Examples:
    """The images of one directory, or of two or three that are the parts: training, validation, test.

    Args:
        paths: of the directories.
        task: the name of a task that learns classes.
        held_out, seed: which part of the training images is for validation, where there is no directory of them.
        size: see `ClassFolders`.
    """
    parts = dict.fromkeys(SPLITS, []) | {split: ClassFolders(path, size) for split, path in zip(SPLITS, paths)}
    report = ', '.join(f'{path}: {len(part):,} images' for path, part in zip(paths, parts.values()))
    if not parts['validation']:
        try:
            parts['train'], parts['validation'] = hold_out(parts['train'], task, part=held_out, seed=seed)
        except UserError as error:
            raise FieldError('data.source', f'file:{paths[0]}', str(error)) from None
        report += f'; {len(parts["validation"]):,} of them held out'
    return Examples(**parts, report=report)


def _images(folder: str, ordered: bool = True) -> Iterator[tuple[str, int]]:
    """(path, bytes) of the images in a folder."""
    with os.scandir(folder) as entries:
        found = (entry for entry in entries if entry.name.lower().endswith(SUFFIXES))
        for entry in sorted(found, key=lambda entry: entry.name) if ordered else found:
            yield entry.path, entry.stat().st_size
