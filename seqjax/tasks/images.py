"""What tasks that read images do with a batch before the model is given it: on the device, in the compiled step."""

import dataclasses

import jax
import jax.numpy as jnp

from seqjax import ops


@dataclasses.dataclass(frozen=True)
class OfImages:
    """A base class beside `Task`, for those that may read images: `prepare` makes a batch of pixels one of numbers.

        uint8 [B, H, W, C] -> float32 from 0 to 1 -> augmented, in training -> (x - mean) / deviation of every channel

    augment: augmentations by name, see `ops.Augmentation`; '' for none. mean, deviation: of every channel, from the data; ()
    where pixels stay as they are. Tokens and frames pass.
    """

    augment: str = dataclasses.field(default='', kw_only=True)
    mean: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)
    deviation: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)

    def prepare(self, batch: dict, keys: jax.Array | None = None) -> dict:
        """The batch that the model is given. keys: one for every row [B], as its place in the global batch has it; None in evaluation."""
        if not is_pixels(batch['inputs']):
            return batch  # tokens, or frames, which are numbers by now
        images, made = ops.unit_range(batch['inputs']), {}
        if keys is not None and self.augment:
            how = ops.Augmentation.parse(self.augment)
            targets = jax.nn.one_hot(batch['targets'], len(self.classes)) if how.mixes else None
            images, targets = how(keys, images, targets)
            made = dict(targets=targets) if how.mixes else {}
        return {**batch, 'inputs': self.normalised(images), **made}

    def normalised(self, images: jax.Array) -> jax.Array:
        """Images from 0 to 1 as the model reads them."""
        return ops.standardise(images, self.mean, self.deviation) if self.mean else images


def is_pixels(inputs) -> bool:
    """Whether inputs are images [B, H, W, C], videos [B, T, H, W, C], or pixels of 8 bits in a row."""
    return not isinstance(inputs, dict) and (inputs.ndim > 3 or inputs.dtype == jnp.uint8)
