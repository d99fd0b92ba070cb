"""The codec of images with captions: pixels as they are, and a caption as the tokens of a target of `PairCodec`.

    token    0         1         2        3      4 ...
    is       padding   unknown   start    end    what the tokenizer knows
"""

import dataclasses
from typing import Any, Self

import numpy as np

from seqjax.data.images.decoding import pixels_of
from seqjax.data.readers.lines import Malformed
from seqjax.data.text import tokenizers
from seqjax.data.text.pair_codec import PairCodec, Vocabulary, learn_side
from seqjax.special_tokens import END


@dataclasses.dataclass(frozen=True)
class CaptionCodec(PairCodec):
    """Decided by the training captions alone; both sides of a `PairCodec` are the one vocabulary.

    length: tokens of a row, the end of a caption included. mean, deviation: of every channel, by which pixels are normalised
    on the device; () where they are not.
    """

    kind = 'captions'
    of_images = True
    length: int = 0
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    image_size: int = 0

    def inputs(self, image: np.ndarray) -> np.ndarray:
        """An image [H, W, C] as it is: uint8, or float32 from 0 to 1."""
        pixels = np.asarray(image)
        return pixels if pixels.dtype == np.uint8 else pixels.astype(np.float32)

    def image(self, path: str) -> np.ndarray:
        """The pixels of an image file, uint8, as those of the run are. Raises `Malformed`."""
        pixels = pixels_of(path, self.image_size, self.shape[-1] if self.shape else None)
        if self.shape and pixels.shape != self.shape:
            shown = [' x '.join(map(str, shape[:2])) for shape in (pixels.shape, self.shape)]
            raise Malformed('has another size than the images of the run', f'{shown[0]} pixels, and they have {shown[1]}')
        return pixels

    def caption(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """(tokens [length], weights [length]) of a caption: its tokens and the end, then padding of weight 0; a longer one is cut."""
        tokens, weights = np.zeros(self.length, np.int32), np.zeros(self.length, np.float32)
        own = self.target(text)
        if len(own) > self.length:
            own = np.append(own[:self.length - 1], np.int32(END))
        tokens[:len(own)], weights[:len(own)] = own, 1
        return tokens, weights

    def row(self, example: Any) -> dict[str, np.ndarray]:
        """dict(inputs [H, W, C], targets [length], weights [length]) of an image and one caption."""
        targets, weights = self.caption(example.target)
        return dict(inputs=self.inputs(example.inputs), targets=targets, weights=weights * np.float32(example.weight))

    def limits(self, limits: Any) -> Any:
        """`decode.Limits` of captions: none has more tokens than the longest of the training part."""
        return dataclasses.replace(limits, max_length=min(limits.max_length, self.length))

    def for_model(self) -> dict[str, Any]:
        return dict(vocabulary=self.target_side.size, target_vocabulary=self.target_side.size, context_length=self.length)

    def for_task(self) -> dict[str, Any]:
        return dict(mean=self.mean, deviation=self.deviation) if self.mean else {}

    def as_options(self) -> dict[str, Any]:
        return dict(tokenizer=tokenizers.name_of(self.target_side.tokenizer), lowercase=self.lowercase)

    def state(self) -> dict[str, Any]:
        return dict(tokenizer=tokenizers.dumps(self.target_side.tokenizer), lowercase=self.lowercase, length=self.length,
                    mean=self.mean, deviation=self.deviation, shape=self.shape, image_size=self.image_size)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        side = Vocabulary(tokenizers.loads(state['tokenizer']))
        return cls(side, side, state['lowercase'], state['length'], tuple(state['mean']), tuple(state['deviation']),
                   tuple(state.get('shape', ())), state.get('image_size', 0))


def learn_captions(texts, options):
    """The codec that training captions give, its rows of no length yet; options: `config.data`."""
    texts = [text.lower() if options.lowercase else text for text in texts]
    side = learn_side(texts, options)
    return CaptionCodec(side, side, options.lowercase)
