"""Labelled sequences: what a reader or a generator returns, before anything is a number."""

from collections.abc import Callable, Sequence
import dataclasses

import numpy as np

SPLITS = ('train', 'validation', 'test')


@dataclasses.dataclass(frozen=True)
class Text:
    """A text cut in two: what is trained on and what is held out."""

    train: str
    validation: str


@dataclasses.dataclass(frozen=True)
class TextPair:
    """Two texts that are judged together, as a premise and a hypothesis are."""

    first: str
    second: str


@dataclasses.dataclass(frozen=True)
class Example:
    """A sequence, and what is to be said about it.

    inputs: a text, the words of a sentence, the frames of a clip [T, D], an image [H, W, C], a video [T, H, W, C], or two texts;
    images and videos are uint8, or float32 from 0 to 1.
    target: the name of a class, a number, or a label for every step (for every character of a text, word, frame), None
    where a step is not counted; the captions of an image, one or several.
    weight: 0 for one that only stands for a file that could not be read, and is not counted.
    """

    inputs: str | tuple[str, ...] | np.ndarray | TextPair
    target: str | float | tuple[str | None, ...]
    weight: float = 1.0


@dataclasses.dataclass(frozen=True)
class Examples:
    """Three disjoint parts of a set; test may be empty.

    Args:
        train, validation, test: lists, or a `data.Source` each, which makes its examples when they are asked for.
        report: what was read and what was left out, for a reader.
        transforms: of training examples, in this order: `transform(example, rng) -> example`, a pure function of the two;
            rng, a numpy.random.Generator, depends on the seed of the run, the step and the place in the batch alone. A
            transform may make a sequence shorter, and images all of one other shape.
        normalise: whether frames are normalised by mean and standard deviation of every feature over the training part.
    """

    train: Sequence[Example]
    validation: Sequence[Example]
    test: Sequence[Example]
    report: str
    transforms: tuple[Callable[[Example, np.random.Generator], Example], ...] = ()
    normalise: bool = False
