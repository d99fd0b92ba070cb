"""Pictures of where a network looked when it labelled images: --mode=predict --explain."""

import pathlib
import sys
from typing import Any

import jax
import numpy as np

from seqjax import models
from seqjax.analysis.vision.attention_maps import cls_attention, plot_attention
from seqjax.analysis.vision.class_activation import class_activation
from seqjax.errors import UserError

DRAWN = 8  # images
FILE = 'predictions.png'


class Pictures:
    """The first images and their labels, drawn when all are there: the attention of a Transformer, or the
    class activation map of a ResNet.

    Args:
        task: of the run. model, params: its network. codec: how it reads images.
        directory: where predictions.png is written.
    """

    def __init__(self, task: Any, model: Any, params: Any, codec: Any, directory: pathlib.Path) -> None:
        self._task, self._model, self._params = task, model, params
        self._codec, self._path, self._taken = codec, directory / FILE, []
        transformer = all(hasattr(model, field) for field in ('has_cls', 'prefix', 'feature_map'))
        averages = isinstance(getattr(model, 'module', model), models.ResNet) and codec.classes
        if not transformer and not averages:
            raise UserError('--explain: draws the attention of a Transformer for images, or the class activation maps '
                            f'of a ResNet with classes, and this is neither ({type(getattr(model, "module", model)).__name__}); '
                            'leave it out')
        self._maps = self._attention if transformer else self._activation

    def take(self, image: np.ndarray, answer: dict) -> None:
        """Another image [H, W, C], and what the run says of it."""
        if len(self._taken) < DRAWN:
            self._taken.append((image, answer))

    def draw(self) -> None:
        """Writes the picture, and says where it is."""
        self._path.unlink(missing_ok=True)
        if not self._taken:
            return print('no picture: no image could be read', file=sys.stderr)
        images, answers = np.stack([image for image, _ in self._taken]), [answer for _, answer in self._taken]
        prepare = jax.jit(lambda images: self._task.prepare(dict(inputs=images))['inputs'])
        self._path.parent.mkdir(exist_ok=True)
        maps, title, columns = self._maps(prepare(images), answers)
        plot_attention(images, maps, self._path, title, names=list(map(_said, answers)), columns=columns)
        print(f'picture: {self._path}', file=sys.stderr)

    def _attention(self, inputs, _):
        return cls_attention(self._model, self._params, inputs), 'attention in the last layer', ()

    def _activation(self, inputs, answers):
        classes = [self._codec.classes.index(answer['label']) for answer in answers]
        maps = class_activation(self._model, self._params, inputs, classes)
        return np.maximum(maps, 0)[:, None], '', ['evidence']


def _said(answer):
    value = answer.get('label', answer.get('prediction'))
    return f'{value:.3g}' if isinstance(value, float) else str(value)
