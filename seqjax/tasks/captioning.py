"""Captioning: a sentence for every image, word by word."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from seqjax.errors import UserError
from seqjax.tasks.images import OfImages
from seqjax.tasks.translation import Translation


@dataclasses.dataclass(frozen=True)
class Captioning(OfImages, Translation):
    """-sum_t log P(target_t | image, targets before t), over the targets whose weight is 1: the loss of a translation.

    model: a linen module, images [B, H, W, C], None, targets [B, T] -> logits [B, T, V]; see `models.Captioner`. The rest: `Translation`
    and `OfImages`, whose augmentations must leave true what the captions say: a flip turns left into right.
    batch: inputs [B, H, W, C], targets [B, T] and weights [B, T].
    """

    data: ClassVar[str] = 'captions'
    output_kind: ClassVar[str] = 'caption'
    of_images: ClassVar[bool] = True

    @classmethod
    def batch_spec(cls, options, B, T):
        H = options.get('image_size') or 32  # no image is read for it
        spec = jax.ShapeDtypeStruct
        return dict(inputs=spec((B, H, H, 3), jnp.uint8), targets=spec((B, T), jnp.int32), weights=spec((B, T), jnp.float32))

    def pixels(self, images: jax.Array) -> jax.Array:
        """Images [B, H, W, C] as they are stored -> as the model reads them where nothing is learned."""
        return self.prepare(dict(inputs=images))['inputs']

    def exported(self, T, codec, options):
        raise UserError('--mode=export: the run reads images, and only what reads text is exported; use tasks and models as a library')
