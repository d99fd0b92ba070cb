"""CLIP: images and texts that belong together find each other among all of the global batch."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.metrics.features import collapsed
from seqjax.tasks.images import OfImages
from seqjax.tasks.simclr import spread
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task


@dataclasses.dataclass(frozen=True)
class CLIP(OfImages, Task):
    """The symmetric cross-entropy of Radford et al. 2021, figure 3: `ops.clip_loss` over the rows of the global batch.

    The temperature is learned, and its scale is at most 100 (section 2.5). The loss of guessing is ln B: `guessing` in every
    line of the log.

    model: a linen module, (images [B, H, W, C], tokens [B, T], mask [B, T]) -> (image embeddings [B, E] of length 1, text embeddings
    [B, E], scale), as `models.CLIP` is. batch: inputs, targets [B, T], and their weights [B, T], all 0 in rows that fill up a batch.
    """

    data: ClassVar[str] = 'captions'
    output_kind: ClassVar[str] = 'image_and_text'
    of_images: ClassVar[bool] = True
    unit: ClassVar[str] = 'nats per pair'

    def init(self, key, batch):
        return self.model.init(key, batch['inputs'], batch['targets'], batch['weights'])

    def represent(self, params: Any, batch: dict, key: jax.Array | None = None) -> dict[str, jax.Array]:
        """dict(images, texts [B, E], scale [B]); in evaluation also features [B, D] of the image tower."""
        rngs = None if key is None else {'dropout': key}
        images, texts, scale = self.model.apply({'params': params}, batch['inputs'], batch['targets'], batch['weights'],
                                                train=key is not None, rngs=rngs)
        found = dict(images=images, texts=texts, scale=jnp.broadcast_to(scale, images.shape[:1]))
        return found if key is not None else {**found, 'features': self.features(params, batch['inputs'])}

    def pair_loss(self, params: Any, outputs: dict, batch: dict) -> Sums:
        there = batch['weights'].sum(axis=1) > 0
        images, texts, count = outputs['images'], outputs['texts'], there.sum().astype(jnp.float32)
        scale = outputs['scale'].mean()  # one number, which every row has
        losses = ops.clip_loss(images, texts, scale, there)
        metrics = dict(guessing=count * jnp.log(jnp.maximum(count, 1)), scale=count * scale, embedding_std=count * spread(images, there))
        rows = {}
        if 'features' in outputs:
            rows = dict(images=images, texts=texts, features=outputs['features'], weights=there.astype(jnp.float32))
        return Sums(loss=losses.sum(), weight=count, metrics=metrics, rows=rows)

    def numbers(self, sums: Sums) -> dict[str, float]:
        return {name: float(value) for name, value in sums.means().items()}

    def remarks(self, numbers):
        return dict(collapsed=collapsed(numbers))
