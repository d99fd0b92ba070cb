"""Labelled sequences: what a reader or a generator returns, before anything is a number."""

import dataclasses

import numpy as np

SPLITS = ('train', 'validation', 'test')


@dataclasses.dataclass(frozen=True)
class TextPair:
    """Two texts that are judged together, as a premise and a hypothesis are."""

    first: str
    second: str


@dataclasses.dataclass(frozen=True)
class Example:
    """A sequence, and what is to be said about it.

    inputs: a text, the words of a sentence, the frames of a clip [T, D], or two texts.
    target: the name of a class, a number, or a label for every step (for every character of a text, word, frame), None
    where a step is not counted.
    """

    inputs: str | tuple[str, ...] | np.ndarray | TextPair
    target: str | float | tuple[str | None, ...]


@dataclasses.dataclass(frozen=True)
class Examples:
    """Three disjoint lists of them. test may be empty. report: what was read and what was left out, for a reader."""

    train: list[Example]
    validation: list[Example]
    test: list[Example]
    report: str
