"""Images that --input names: a file, or all of a directory and those in it."""

from collections.abc import Iterator
import os
import sys

from seqjax.data.images.decoding import SUFFIXES
from seqjax.data.readers.lines import plural
from seqjax.errors import UserError

# What files of images and archives begin with: PNG, JPEG, WebP, GIF, BMP, TIFF; zip, also .npz.
NO_TEXT = b'\x89PNG', b'\xff\xd8\xff', b'RIFF', b'GIF8', b'BM', b'II*\0', b'MM\0*', b'PK\3\4'


class ImagePaths:
    """Paths of images, in the order of their names. name: what --input was."""

    def __init__(self, name: str, paths: list[str]) -> None:
        self.name, self.paths = name, paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)


def image_paths(name: str) -> ImagePaths | None:
    """Those of a directory, or of an image; None where `name` is something else, which may have lines.

    An image of another format, or with another suffix, and an archive are refused.
    """
    is_image = lambda path: path.lower().endswith(SUFFIXES)
    if not os.path.isdir(name):
        if not is_image(name):
            _check_lines(name)
            return None
        return ImagePaths(name, [name])
    found = sorted(os.path.join(folder, file) for folder, _, files in os.walk(name) for file in files)
    images = [path for path in found if is_image(path)]
    if not images:
        raise UserError(f'--input={name}: has no image ({", ".join(SUFFIXES)})')
    if others := len(found) - len(images):
        print(f'{name}: {plural(others, "file")} left out, which are no images ({", ".join(SUFFIXES)})', file=sys.stderr)
    return ImagePaths(name, images)


def _check_lines(name):
    if name.endswith('.gz') or not os.path.isfile(name):
        return  # `open_input` says what is wrong with it
    with open(name, 'rb') as file:
        begin = file.read(4096)
    if begin.startswith(NO_TEXT) and b'\0' in begin:
        raise UserError(f'--input={name}: has neither lines of text nor the suffix of an image '
                        f'({", ".join(SUFFIXES)}); convert or rename it')
