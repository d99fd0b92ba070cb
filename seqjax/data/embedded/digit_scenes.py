"""Scenes of handwritten digits with captions: "a three", "a three left of a seven", "a three above a seven".

One digit stands anywhere on a canvas of 32 x 32 pixels, or two stand beside or above each other, 10 to 14 pixels high. The
caption names the left or the upper one first, so that a scene has one caption. Digits are those of scikit-learn (`digits`),
no image of which is in two parts; of the 200 compositions of two digits a fifth is never trained on, and half of the held-out
scenes of two digits show one of those.
"""

from collections.abc import Mapping, Sequence
import functools
import math
from typing import Any

import numpy as np

from seqjax.data.embedded.digits import digit_images
from seqjax.data.readers.examples import SPLITS, Example, Examples
from seqjax.data.source import Source

SCENES = dict(train=20_000, validation=1_000, test=1_000)
NAMES = 'zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine'
RELATIONS = 'left of', 'above'
CANVAS, SMALLEST, LARGEST = 32, 10, 14
SWAY = 5          # pixels that two digits may differ in, across the direction in which they stand
ALONE = 1 / 6     # of the scenes have one digit
HELD_OUT = 40     # compositions that training never shows
NEW = 1 / 2       # of the held-out scenes of two digits have one of those
TEST = 0.2        # of the digits are for testing


def digit_scene_examples(task, *, held_out, seed):
    """Scenes uint8 [32, 32, 1] and their captions. `seed` deals out digits and compositions."""
    del task
    images, names = digit_images()
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(images))
    test, rest = np.split(chosen, [round(TEST * len(images))])
    validation, train = np.split(rest, [math.ceil(held_out * len(rest))])
    every = rng.permutation(len(RELATIONS) * 100)
    new, known = every[:HELD_OUT], every[HELD_OUT:]
    digits = np.array(names, int)
    parts = [Scenes(split, images[of], digits[of], known, () if split == 'train' else new, seed)
             for split, of in zip(SPLITS, (train, validation, test))]
    return Examples(*parts, f'{sum(map(len, parts)):,} scenes made of {len(images):,} digits')


class Scenes(Source):
    """Scene i is a function of (seed, split, i) and of the digits of its part.

    Args:
        images, digits: [N, 8, 8, 1] of uint8, and which digits they are [N].
        known, new: compositions as numbers, 100 relation + 10 first + second; NEW of the scenes have one of the second list,
        where there are some.
    """

    def __init__(self, split: str, images: np.ndarray, digits: np.ndarray, known: Sequence[int], new: Sequence[int],
                 seed: int) -> None:
        self.split, self.images, self.known, self.new, self.seed = split, images, known, new, seed
        self._of_digit = [np.flatnonzero(digits == digit) for digit in range(10)]

    def __len__(self) -> int:
        return SCENES[self.split]

    def __getitem__(self, i: int) -> Example:
        shown, rng = self._shown(i)
        return Example(draw(rng, [self._image(rng, digit) for digit in shown[1:]], shown[0]), caption(shown))

    @functools.cached_property
    def targets(self) -> Sequence[str]:
        return [caption(self._shown(i)[0]) for i in range(len(self))]

    def manifest(self) -> Mapping[str, Any]:
        return dict(digit_scenes=self.split, count=len(self), seed=self.seed, digits=len(self.images), version=1)

    def _shown(self, i):
        """((relation, first digit, second digit) or (None, digit), the generator for what comes next)."""
        rng = np.random.default_rng((self.seed, SPLITS.index(self.split), i))
        alone, new, digit, number = rng.random(), rng.random(), int(rng.integers(10)), rng.random()
        if alone < ALONE:
            return (None, digit), rng
        of = self.new if len(self.new) and new < NEW else self.known
        number = int(of[int(number * len(of))])
        return (number // 100, number // 10 % 10, number % 10), rng

    def _image(self, rng, digit):
        return self.images[rng.choice(self._of_digit[digit])]


def caption(shown: tuple) -> str:
    """'a three left of a seven' of (0, 3, 7); 'a three' of (None, 3)."""
    relation, *digits = shown
    named = [f'{"an" if NAMES[digit] == "eight" else "a"} {NAMES[digit]}' for digit in digits]
    return named[0] if relation is None else f'{named[0]} {RELATIONS[relation]} {named[1]}'


def draw(rng: np.random.Generator, images: Sequence[np.ndarray], relation: int | None) -> np.ndarray:
    """The canvas [32, 32, 1] with one digit, or with two of them side by side (0) or one above the other (1)."""
    canvas = np.zeros((CANVAS, CANVAS), np.uint8)
    sizes = rng.integers(SMALLEST, LARGEST + 1, size=len(images))
    if relation is None:
        places = rng.integers(0, CANVAS - sizes[0] + 1, size=(1, 2))
    else:
        half = CANVAS // 2
        along = [int(rng.integers(0, half - size + 1)) + half * k for k, size in enumerate(sizes)]
        first = int(rng.integers(0, CANVAS - sizes[0] + 1))
        second = int(np.clip(first + rng.integers(-SWAY, SWAY + 1), 0, CANVAS - sizes[1]))
        places = [(a, b) if relation else (b, a) for a, b in zip(along, (first, second))]
    for image, size, (top, left) in zip(images, sizes.tolist(), places):
        canvas[top:top + size, left:left + size] = enlarged(image[:, :, 0], size)
    return canvas[:, :, None]


def enlarged(image: np.ndarray, size: int) -> np.ndarray:
    """[8, 8] as [size, size], linearly interpolated."""
    place = np.clip((np.arange(size) + 0.5) * len(image) / size - 0.5, 0, len(image) - 1)
    below = np.minimum(place.astype(int), len(image) - 2)
    part = place - below
    weights = np.zeros((size, len(image)))
    weights[np.arange(size), below], weights[np.arange(size), below + 1] = 1 - part, part
    return np.rint(weights @ image.astype(np.float64) @ weights.T).astype(np.uint8)
