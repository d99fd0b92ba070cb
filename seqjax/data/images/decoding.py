"""The pixels of an image file by Pillow, uint8 [H, W, C], within bounds that a file cannot move.

What is read is read without a loss: grey and 1-bit images have one channel, colours and palettes three, and an alpha channel is
left out where all of it is opaque. CMYK, 16 bits, transparent pixels and animations are `Malformed`: what becomes of their
colours is for their owner to say, who converts them first.
"""

import io
import os
from typing import NamedTuple

import numpy as np

from seqjax.data.readers.lines import Malformed
from seqjax.errors import UserError

SUFFIXES = ('.png', '.jpg', '.jpeg', '.webp')
FORMATS = ('PNG', 'JPEG', 'WEBP')  # of Pillow: no other of its decoders ever runs
MOST_PIXELS = 1 << 26              # of one image: 8,192 x 8,192
MOST_BYTES = 1 << 28               # of one file
CHANNELS = {'1': 1, 'L': 1, 'LA': 1, 'P': 3, 'PA': 3, 'RGB': 3, 'RGBA': 3}  # of Pillow's modes
WAY_OUT = 'repair or remove it, or set config.data.on_error=skip'


class Header(NamedTuple):
    """What an image is before its pixels are decoded."""

    height: int
    width: int
    channels: int


def look(file: str | bytes) -> Header:
    """The header of an image, from its first bytes; its last ones must be there, too. Raises `Malformed`.

    Args:
        file: a path, or the bytes of a file.
    """
    with _opened(file) as image:
        return _checked(image, file)


def pixels_of(file: str | bytes, size: int = 0, channels: int | None = None) -> np.ndarray:
    """The pixels of an image, uint8 [H, W, C]. Raises `Malformed`.

    Args:
        file: a path, or the bytes of a file.
        size: H and W; 0: those of the file.
        channels: 1 or 3; None: as many as the file has.
    """
    from PIL import Image, ImageOps  # here: runs on texts need not wait for it

    with _opened(file) as image:
        header = _checked(image, file)
        try:
            image.load()
            image = ImageOps.exif_transpose(image)
            if image.mode in ('LA', 'PA', 'RGBA') or 'transparency' in image.info:
                if image.convert('RGBA').getchannel('A').getextrema() != (255, 255):
                    raise Malformed('has transparent pixels', 'put it on a background')
            if header.channels == 3 and channels == 1:
                raise Malformed('has colours, and the others are grey')
            image = image.convert('L' if (channels or header.channels) == 1 else 'RGB')
            if size and image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
        except Malformed:
            raise
        except Exception as error:  # Pillow's decoders raise what they like at damaged data
            raise Malformed('cannot be decoded', _said(error)) from None
        pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


def decoded(path: str | os.PathLike, size: int = 0, channels: int | None = None) -> np.ndarray:
    """`pixels_of` a file, for a user: a UserError names it."""
    try:
        return pixels_of(os.fspath(path), size, channels)
    except Malformed as problem:
        raise UserError(f'{path}: {problem}; repair or remove it') from None


def resized(pixels: np.ndarray, size: int) -> np.ndarray:
    """Pixels [H, W, C] of uint8 as [size, size, C]."""
    from PIL import Image

    if not size or pixels.shape[:2] == (size, size):
        return pixels
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    made = np.asarray(image.resize((size, size), Image.Resampling.BILINEAR))
    return made.reshape(size, size, pixels.shape[2])


def _opened(file):
    """The image, of which only the header is read."""
    from PIL import Image

    try:
        length = len(file) if isinstance(file, bytes) else os.path.getsize(file)
        if not length:
            raise Malformed('is empty')
        if length > MOST_BYTES:
            raise Malformed(f'has more than {MOST_BYTES:,} bytes', f'{length:,}')
        return Image.open(io.BytesIO(file) if isinstance(file, bytes) else file, formats=FORMATS)
    except Malformed:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Malformed(f'has more than {MOST_PIXELS:,} pixels') from None
    except FileNotFoundError:
        raise Malformed('is not there') from None
    except Exception as error:
        raise Malformed('is no image that can be read', _said(error)) from None


def _checked(image, file):
    """The header, if it is one that can be read."""
    width, height = image.size
    if not width or not height:
        raise Malformed('has no pixels', f'{width} x {height}')
    if width * height > MOST_PIXELS:
        raise Malformed(f'has more than {MOST_PIXELS:,} pixels', f'{width:,} x {height:,}')
    if image.mode == 'CMYK':
        raise Malformed('has CMYK colours', 'convert it to RGB')
    if image.mode not in CHANNELS:
        deep = image.mode.startswith(('I', 'F'))
        raise Malformed('has more than 8 bits a channel' if deep else 'has a mode that is not read', f'{image.mode}; convert it')
    # Of 16 bits of colours Pillow drops 8.
    if image.format == 'PNG' and any('16' in str(tile[-1]) for tile in image.tile):
        raise Malformed('has more than 8 bits a channel', f'{image.mode}; convert it')
    if image.format in ('PNG', 'WEBP') and getattr(image, 'n_frames', 1) > 1:
        raise Malformed('is an animation', f'{image.n_frames} frames')
    _check_end(image.format, file)
    # It is shown on its side. Without the first condition Pillow would decode a PNG.
    turned = 'exif' in image.info and image.getexif().get(0x0112, 1) in (5, 6, 7, 8)
    return Header(*((width, height) if turned else (height, width)), CHANNELS[image.mode])


def _check_end(kind, file):
    """A file that was cut off lacks the mark that its format ends with."""
    mark = {'PNG': b'IEND', 'JPEG': b'\xff\xd9'}.get(kind)
    if isinstance(file, bytes):
        tail = file[-4096:]
    else:
        with open(file, 'rb') as opened:
            opened.seek(max(0, os.path.getsize(file) - 4096))
            tail = opened.read()
    if mark and mark not in tail:
        raise Malformed('is cut off', 'its end mark is missing')


def _said(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
