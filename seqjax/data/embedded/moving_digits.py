"""Clips of handwritten digits that drift over a canvas of 16 x 16 pixels: frames [T, 256], or videos [T, 16, 16, 1].

    classification   one digit in the whole clip; which?
    tagging          one digit after another, each for several frames; which one is seen, frame by frame

Srivastava et al. 2015 made digits move to learn from video. Here a frame alone does not always tell: a bar drifts past and
hides a quarter of the canvas, the digit is partly outside now and then, and every pixel has noise. What one frame hides
another shows. The images are the 8 x 8 digits that scikit-learn carries (Alpaydin & Kaynak 1998); no two parts have one in
common.
"""

import dataclasses

import numpy as np

from seqjax.data.embedded.parts import three_parts
from seqjax.data.readers.examples import Example, Examples
from seqjax.tasks import TASKS

CLIPS = 5_500
SIDE, CANVAS = 8, 16
MARGIN = 3            # how far a digit may leave the canvas on the left and on the right
SWAY = 1              # rows that it moves up and down
FRAMES = 8, 16        # the shortest and the longest clip
SHOWN = 4, 7          # frames that one of several digits is seen
BAR = 4               # columns that are hidden
NOISE = 0.08          # standard deviation


def moving_digit_examples(task, *, held_out, seed):
    """Clips and their digits. `seed` deals the images out; clip i is a function of (seed, i) and the images of its part."""
    from sklearn.datasets import load_digits  # here, because it takes a second to import and few runs need it

    digits = load_digits()
    images, names = (digits.images / 16).astype(np.float32), digits.target.astype(str)
    chosen = np.random.default_rng(seed).permutation(len(images))

    def examples(clips, chosen):
        own = images[chosen], names[chosen]
        return [clip(np.random.default_rng((seed, i)), *own, task) for i in clips]

    parts = map(examples, three_parts(range(CLIPS), held_out), three_parts(chosen, held_out))
    return Examples(*parts, f'{CLIPS:,} clips of {FRAMES[0]} to {FRAMES[1]} frames made of {len(images):,} images')


def moving_digit_videos(task, *, held_out, seed):
    """The same clips as videos, uint8 [T, 16, 16, 1]."""
    frames = moving_digit_examples(task, held_out=held_out, seed=seed)
    pixels = lambda found: np.rint(found.inputs * 255).astype(np.uint8).reshape(-1, CANVAS, CANVAS, 1)
    as_video = lambda part: [dataclasses.replace(found, inputs=pixels(found)) for found in part]
    return Examples(*map(as_video, (frames.train, frames.validation, frames.test)), frames.report)


def clip(rng, images, names, task):
    """One Example made of some of the images [N, 8, 8] with these names [N]."""
    T = rng.integers(FRAMES[0], FRAMES[1] + 1)
    shown = [T] if not TASKS[task].per_step else rng.integers(SHOWN[0], SHOWN[1] + 1, size=-(-T // SHOWN[0]))
    digits = rng.integers(len(images), size=len(shown))
    seen = np.repeat(digits, shown)[:T]  # which image, frame by frame

    frames = np.zeros((T, CANVAS, CANVAS + 2 * MARGIN), np.float32)
    top = (CANVAS - SIDE - SWAY) // 2 + _drift(rng, T, SWAY)
    left = _drift(rng, T, CANVAS + 2 * MARGIN - SIDE)
    at, square = np.arange(T)[:, None, None], np.arange(SIDE)
    frames[at, top[:, None, None] + square[:, None], left[:, None, None] + square] = images[seen]
    frames = frames[:, :, MARGIN:-MARGIN]
    bar = np.arange(CANVAS) - _drift(rng, T, CANVAS - BAR)[:, None]  # [T, 16]
    frames = np.where(((0 <= bar) & (bar < BAR))[:, None], np.float32(0), frames)
    frames = np.clip(frames + NOISE * rng.standard_normal(frames.shape, np.float32), 0, 1).reshape(T, -1)
    return Example(frames, tuple(map(str, names[seen])) if TASKS[task].per_step else str(names[digits[0]]))


def _drift(rng, T, room):
    """Places 0 ... room, one a frame, of something that moves at a steady speed and turns back at both ends: [T]."""
    place = (rng.uniform(0, room) + rng.uniform(-1.5, 1.5) * np.arange(T)) % (2 * room)
    return np.rint(np.minimum(place, 2 * room - place)).astype(int)
