"""A folder of images for every class, read when they are asked for:

    DIR/cat/001.png    DIR/cat/002.jpg    DIR/dog/001.png    ...
"""

from collections.abc import Iterator
import os

from seqjax.data.images.decoding import SUFFIXES
from seqjax.data.images.lazy import Found, LazyImages


class ClassFolders(LazyImages):
    """The images below a directory, in the order of their classes and names.

    Args:
        directory: has a folder for every class.
        size, on_error, cached: see `LazyImages`.
    """

    def __init__(self, directory: str | os.PathLike, size: int = 0, on_error: str = 'stop', cached: bool = False) -> None:
        folder = os.path.expanduser(directory)
        super().__init__([found for name in class_folders(folder) for found in _images(os.path.join(folder, name), name)],
                         size, on_error, cached)


def class_folders(directory: str | os.PathLike) -> list[str]:
    """The names of the folders in a directory that have an image; [] where it is none of class folders."""
    with os.scandir(os.path.expanduser(directory)) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return [name for name in names if next(_images(os.path.join(os.path.expanduser(directory), name), name, False), None)]


def _images(folder: str, target: str, ordered: bool = True) -> Iterator[Found]:
    """The images in a folder."""
    with os.scandir(folder) as entries:
        found = (entry for entry in entries if entry.name.lower().endswith(SUFFIXES))
        for entry in sorted(found, key=lambda entry: entry.name) if ordered else found:
            stat = entry.stat()
            yield Found(entry.path, target, stat.st_size, stat.st_mtime_ns)
