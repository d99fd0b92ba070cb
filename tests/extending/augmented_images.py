"""A source of images from outside, made one by one as they are needed, with random augmentation of those that are trained on.

An image shows stripes that fall to the right or to the left, on a grey background with noise. Every epoch, the stripes of an image are
at another place and at times upside down, and its noise is another one: `shifted`, `turned` and `noisy` are functions of the image and
of a generator that follows from (seed, step, place in the batch) alone, so a run that is killed goes on with the same images.

    python launch.py --config=tests/extending/augmented_images.py --workdir=runs/stripes
"""

import dataclasses

import numpy as np

from seqjax import config as configs
from seqjax import data

SIDE, IMAGES = 12, dict(train=50_000, validation=128, test=128)
CLASSES = ('left', 'right')


class Stripes(data.Source):
    """Image i is a function of (split, i): nothing is stored."""

    def __init__(self, split):
        self.split = split

    def __len__(self):
        return IMAGES[self.split]

    def __getitem__(self, i):
        rng = np.random.default_rng((list(IMAGES).index(self.split), i))
        y, x = np.mgrid[:SIDE, :SIDE]
        along = x + (y, -y)[i % 2]
        pixels = 0.5 + 0.3 * np.sin(along * rng.uniform(0.8, 1.5)) + rng.normal(scale=0.1, size=(SIDE, SIDE))
        return data.Example(np.float32(pixels)[:, :, None], CLASSES[i % 2])                # [H, W, 1]

    @property
    def targets(self):
        return np.resize(CLASSES, len(self)).tolist()

    def manifest(self):
        return dict(stripes=self.split, side=SIDE, images=len(self), version=1)


def shifted(example, rng):
    return dataclasses.replace(example, inputs=np.roll(example.inputs, rng.integers(SIDE, size=2), axis=(0, 1)))


def turned(example, rng):
    return dataclasses.replace(example, inputs=example.inputs[::-1, ::-1] if rng.random() < 0.5 else example.inputs)


def noisy(example, rng):
    noise = rng.normal(scale=0.05, size=example.inputs.shape).astype(np.float32)
    return dataclasses.replace(example, inputs=example.inputs + noise)


@data.SOURCES.register('stripes')
@data.made_for('class')
def stripes(task):
    return data.Examples(*map(Stripes, IMAGES), report='stripes that fall to the left or to the right',
                         transforms=(shifted, turned, noisy))


def get_config():
    config = configs.defaults('reader', source='stripes')
    config.data.update(batch_size=16)
    config.model.update(encoder='conv', width=16, depth=2, kernel_size=3, pooling='mean')
    config.train.update(steps=200, eval_every=50, save_every=25)
    config.optimizer.update(learning_rate=1e-2, warmup_steps=20)
    return config
