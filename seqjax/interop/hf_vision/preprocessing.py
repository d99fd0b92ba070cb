"""What comes before a network of Hugging Face's: how images are resized, cropped and normalised, as preprocessor_config.json says.

Nothing is guessed: a fact that the file does not have is asked for.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqjax.errors import UserError

FILE = 'preprocessor_config.json'
# One number for `size`, as older files have it, is the shorter side for processors of these classes, and both sides for others.
SHORTER = ('CLIP', 'Bit', 'ConvNext')
STEPS = 'do_resize', 'do_center_crop', 'do_rescale', 'do_normalize', 'do_convert_rgb'  # that there are here
WHOLE = 384  # processors of ConvNext's crop images of a smaller size


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """size: (height, width), or the shorter side; None: images are not resized. resample: number of a filter of Pillow's. crop:
    (height, width) of the middle that is kept; None: all. factor: what bytes are multiplied by. mean, std: of the channels; None: they
    are not normalised.
    """

    size: tuple[int, int] | int | None
    resample: int
    crop: tuple[int, int] | None
    factor: float
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None

    def __call__(self, images: Sequence[Any]) -> np.ndarray:
        """pixel_values [B, C, H, W] in float32 of images, uint8 [H, W, C] arrays or Pillow's."""
        made = [self._one(np.asarray(image)) for image in images]
        if len({image.shape for image in made}) > 1:
            raise UserError(f'{FILE}: images of several sizes stay so, {sorted({image.shape for image in made})}; resize them first')
        return np.stack(made)

    def _one(self, image):
        from PIL import Image  # here: runs on texts need not wait for it

        if image.ndim != 3 or image.dtype != np.uint8 or image.shape[2] not in (1, 3):
            raise UserError(f'an image is uint8 [height, width, 1 or 3], and this is {image.dtype} {list(image.shape)}')
        if self.size is not None:
            height, width = self.size if isinstance(self.size, tuple) else _by_shorter_side(image.shape[:2], self.size)
            made = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).resize((width, height), self.resample)
            image = np.asarray(made).reshape(height, width, -1)
        x = _middle(image, self.crop) if self.crop else image
        x = x.astype(np.float32) * np.float32(self.factor)
        if self.mean is not None:
            x = (x - np.float32(self.mean)) / np.float32(self.std)
        return np.moveaxis(x, -1, 0)


def parse(found: dict) -> Preprocessing:
    """The Preprocessing that the JSON object of a file describes."""
    name = str(found.get('image_processor_type') or found.get('feature_extractor_type') or '')

    def needed(key, flag):
        value = found.get(key)
        if value is None:
            raise UserError(f'{FILE}: has no {key!r}, and {flag} is true; add it')
        return value

    def on(flag, otherwise=True):
        return found.get(flag, otherwise) is not False and found.get(flag, otherwise) is not None

    for key, value in found.items():
        if value and (key.startswith('do_') and key not in STEPS or key in ('rescale_offset', 'offset')):
            raise UserError(f'{FILE}: {key}={value!r}: no such step here, where images are resized, '
                            'cropped, rescaled and normalised; prepare pixel_values with transformers')
    size, crop = None, None
    if name.startswith('ConvNext') and on('do_resize'):
        size, crop = _convnext(needed('size', 'do_resize'), lambda: needed('crop_pct', 'do_resize'))
    elif found.get('crop_pct') is not None:
        raise UserError(f"{FILE}: crop_pct={found['crop_pct']!r}: is read of processors of ConvNext's, "
                        f"and this is {name or 'none that is named'}; prepare pixel_values with transformers")
    elif on('do_resize'):
        size = needed('size', 'do_resize')
        if isinstance(size, dict) and 'shortest_edge' in size and not size.get('longest_edge'):
            size = int(size['shortest_edge'])
        elif isinstance(size, int):
            size = size if name.startswith(SHORTER) else (size, size)
        else:
            size = _pair(size, 'size')
    if on('do_center_crop', 'crop_size' in found):
        crop = needed('crop_size', 'do_center_crop')
        crop = (crop, crop) if isinstance(crop, int) else _pair(crop, 'crop_size')
    normalised = on('do_normalize')
    return Preprocessing(
        size, int(needed('resample', 'do_resize')) if size is not None else 0, crop,
        float(found.get('rescale_factor') or 1 / 255) if on('do_rescale') else 1.0,
        *(tuple(map(float, needed(key, 'do_normalize'))) if normalised else None for key in ('image_mean', 'image_std')))


def _convnext(size, share):
    """(size, crop) of a processor of ConvNext's: a small square is the middle of an image, `share()` of its side."""
    side = size.get('shortest_edge') if isinstance(size, dict) else size
    if not isinstance(side, int):
        raise UserError(f"{FILE}: size={size!r}: must be a number, or {{'shortest_edge': ...}}")
    return ((side, side), None) if side >= WHOLE else (int(side / share()), (side, side))


def _pair(value, key):
    try:
        return int(value['height']), int(value['width'])
    except (TypeError, KeyError, ValueError):
        raise UserError(f"{FILE}: {key}={value!r}: must be a number, or {{'height': ..., 'width': ...}}") from None


def _by_shorter_side(shape, side):
    short, long = sorted(shape)
    other = int(side * long / short)
    return (side, other) if shape[0] <= shape[1] else (other, side)


def _middle(image, crop):
    """The middle of an image; what lies outside of it is zero."""
    (H, W), (h, w) = image.shape[:2], crop
    up, left = max(0, -((H - h) // 2)), max(0, -((W - w) // 2))
    if H < h or W < w:
        image = np.pad(image, ((up, max(0, h - H - up)), (left, max(0, w - W - left)), (0, 0)))
        H, W = image.shape[:2]
    top, side = (H - h) // 2, (W - w) // 2
    return image[top:top + h, side:side + w]
