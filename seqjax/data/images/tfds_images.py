"""Images of a set of TensorFlow Datasets, decoded by Pillow when they are asked for, and within its bounds."""

from collections.abc import Callable, Mapping, Sequence
import hashlib
from typing import Any

import numpy as np

from seqjax.data.images.decoding import pixels_of
from seqjax.data.readers.examples import Example
from seqjax.data.readers.lines import Malformed
from seqjax.data.source import Source
from seqjax.errors import UserError


class TfdsImages(Source):
    """Records of a split that have a target.

    Args:
        name, split: for sentences, and for the manifest.
        records: with encoded images, by number.
        image, target: names of features.
        convert: what stands in the second -> the target.
        has_target: a record -> whether it has one.
        size: height and width that images are resized to; 0: all have one size as they are.
    """

    def __init__(self, name: str, split: str, records: Sequence[Mapping[str, Any]], image: str, target: str,
                 convert: Callable[[Any], Any], has_target: Callable[[Mapping[str, Any]], bool], size: int = 0) -> None:
        self.name, self.split, self.size, self._records, self._image = name, split, size, records, image
        found = [(i, record) for i, record in enumerate(records) if has_target(record)]
        self._chosen, self._targets = [i for i, _ in found], [convert(record[target]) for _, record in found]
        self.without = len(records) - len(found)
        digest = hashlib.sha256(repr(self._targets).encode())
        for _, record in found:
            digest.update(str(len(record[image])).encode())
        self._digest = digest.hexdigest()
        self._shape = self._pixels(0, None).shape if found else ()

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, i: int) -> Example:
        pixels = self._pixels(i, self._shape[-1])
        if pixels.shape != self._shape:
            shown = [' x '.join(map(str, shape[:2])) for shape in (pixels.shape, self._shape)]
            raise UserError(f'{self.name}: image {self._chosen[i]} of {self.split} has {shown[0]} pixels, and the first has {shown[1]}; '
                            'set config.data.image_size to resize all images')
        return Example(pixels, self._targets[i])

    @property
    def targets(self) -> Sequence[Any]:
        return self._targets

    def manifest(self) -> Mapping[str, Any]:
        """Targets, and how long encoded images are."""
        return dict(set=self.name, split=self.split, images=len(self), size=self.size, records=self._digest)

    def _pixels(self, i: int, channels: int | None) -> np.ndarray:
        try:
            return pixels_of(bytes(self._records[self._chosen[i]][self._image]), self.size, channels)
        except Malformed as problem:
            raise UserError(f'{self.name}: image {self._chosen[i]} of {self.split}: {problem}') from None
