"""What tasks share that learn features of images from views of them, without labels."""

from collections.abc import Mapping
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.errors import FieldError
from seqjax.metrics.features import collapsed
from seqjax.tasks.images import OfImages
from seqjax.tasks.sums import Sums
from seqjax.tasks.task import Task
from seqjax.tasks.views import keys_of, views


@dataclasses.dataclass(frozen=True)
class SelfSupervised(OfImages, Task):
    """A network whose features [B, D] are learned, and a head on top of them, a module, that is thrown away afterwards.

    The head's parameters are `params['projection']`, beside those of the model: `runs.load_model` and `config.init_from` take the
    model's. Any set of classes will do; the classes are only used to watch the features in evaluations, where every image also
    goes through the network as it is, and metrics are given `features` and `targets`.

    model: a linen module with `features`: images [B, H, W, C] -> [B, D].
    """

    classes: tuple[str, ...] = ()

    data: ClassVar[str] = 'labelled'
    target: ClassVar[str] = 'class'
    output_kind: ClassVar[str] = 'row'
    of_images: ClassVar[bool] = True

    @classmethod
    def head(cls, classes):
        return dict(outputs=0, per_step=False)  # of the model: features alone

    @property
    def head_module(self):
        """The linen module of the head."""
        raise NotImplementedError

    def __post_init__(self):
        if self.model is not None and not hasattr(self.model, 'features'):
            raise FieldError('model.name', type(self.model).__name__.lower(), 'has no features to learn without labels; take a network '
                             "for images, as 'vit'")

    def init(self, key, batch):
        variables = super().init(key, batch)
        features = jax.eval_shape(lambda: self.model.apply(variables, batch['inputs'], method='features'))
        head = self.head_module.init(jax.random.fold_in(key, 1), jnp.zeros(features.shape, features.dtype))
        return {**variables, 'params': {**variables['params'], 'projection': head['params']}}

    def prepare(self, batch: dict, keys: jax.Array | None = None) -> dict:
        """With 'views' [B, 2, H, W, C]; in evaluation these are the same every time, and 'inputs' are the images as they are."""
        if not self.augment:
            raise FieldError('config.data.augment', '', "two views of an image must differ; write augmentations, as in "
                             "'resized_crop(area=(0.2, 1.0)), flip'")
        images = ops.unit_range(batch['inputs'])
        made = self.make_views(images, keys_of(images) if keys is None else keys)
        made = {name: self.normalised(image) for name, image in made.items()}
        if keys is None:
            return {**batch, **made, 'inputs': self.normalised(images)}
        return {**{name: value for name, value in batch.items() if name != 'inputs'}, **made}

    def make_views(self, images: jax.Array, keys: jax.Array) -> dict[str, jax.Array]:
        """{name: views [B, V, H, W, C]}, 0 to 1."""
        return dict(views=views(images, keys, ops.Augmentation.parse(self.augment)))

    def project(self, params: Any, features: jax.Array) -> jax.Array:
        """The head's outputs."""
        return self.head_module.apply({'params': params['projection']}, features)

    def kept_rows(self, outputs: dict, batch: dict) -> dict[str, jax.Array]:
        """What an evaluation keeps of every row, for metrics of features; nothing in training."""
        if 'features' not in outputs:
            return {}
        return dict(features=outputs['features'], targets=batch['targets'], weights=batch['weights'])

    def numbers(self, sums: Sums) -> dict[str, float]:
        return {name: float(value) for name, value in sums.means().items()}

    def remarks(self, numbers: Mapping[str, float]) -> dict[str, str]:
        return dict(collapsed=collapsed(numbers))
