"""A folder of images for every class, read when they are asked for:

    DIR/cat/001.png    DIR/cat/002.jpg    DIR/dog/001.png    ...
"""

from collections.abc import Iterator
import os

from seqjax.data.images.decoding import SUFFIXES
from seqjax.data.images.lazy import Found, LazyImages, found_at
from seqjax.data.readers.lines import plural


class ClassFolders(LazyImages):
    """The images below a directory, in the order of their classes and names.

    Args:
        directory: has a folder for every class.
        size, on_error, cached: see `LazyImages`.
    """

    def __init__(self, directory: str | os.PathLike, size: int = 0, on_error: str = 'stop', cached: bool = False) -> None:
        folder = os.path.expanduser(directory)
        self.others = _others(folder)
        super().__init__([found for name in class_folders(folder) for found in _images(os.path.join(folder, name), name)],
                         size, on_error, cached)

    def summary(self, count: int | None = None) -> str:
        """Also of the files that are no images of a class."""
        if not self.others:
            return super().summary(count)
        shown = ', '.join(self.others[:3]) + (', ...' if len(self.others) > 3 else '')
        others = plural(len(self.others), 'other file')
        return f'{super().summary(count)}, {others} left out: {shown}'


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
            yield found_at(entry.path, target)


def _others(directory: str) -> list[str]:
    """Files below a directory that are not CLASS/NAME with the suffix of an image, and empty classes."""
    found = []
    for folder, folders, files in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        of_class = inside != '.' and os.sep not in inside
        found += [os.path.join(inside, name).removeprefix(f'.{os.sep}') for name in sorted(files)
                  if not (of_class and name.lower().endswith(SUFFIXES))]
        if of_class and not files and not folders:
            found.append(inside + os.sep)
        folders.sort()
    return found
