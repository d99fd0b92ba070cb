"""Images that --input names: a file, or all of a directory and those in it."""

from collections.abc import Iterator
import os
import sys

from seqjax.data.images.decoding import SUFFIXES
from seqjax.data.readers.lines import plural
from seqjax.errors import UserError


class ImagePaths:
    """Paths of images, in the order of their names. name: what --input was."""

    def __init__(self, name: str, paths: list[str]) -> None:
        self.name, self.paths = name, paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)


def image_paths(name: str) -> ImagePaths | None:
    """Those of a directory, or of an image; None where `name` is something else, which may have lines."""
    is_image = lambda path: path.lower().endswith(SUFFIXES)
    if not os.path.isdir(name):
        return ImagePaths(name, [name]) if is_image(name) else None
    found = sorted(os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files)
    images = [path for path in found if is_image(path)]
    if not images:
        raise UserError(f'--input={name}: has no image ({", ".join(SUFFIXES)})')
    if others := len(found) - len(images):
        print(f'{name}: {plural(others, "file")} left out, which are no images ({", ".join(SUFFIXES)})', file=sys.stderr)
    return ImagePaths(name, images)
