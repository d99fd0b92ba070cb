"""Span corruption (Raffel et al. 2020, section 3.1.4): the hidden spans of a text are written, token by token."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp

from seqjax.tasks.options import Smoothing
from seqjax.tasks.translation import Translation


def span_counts(length: int, share: float, mean_length: float) -> tuple[int, int]:
    """(hidden tokens, spans) of a text of two tokens or more."""
    hidden = min(max(round(length * share), 1), length - 1)
    return hidden, min(max(round(hidden / mean_length), 1), length - hidden)


def text_length(steps: int, share: float, mean_length: float) -> int:
    """The tokens of the longest text whose inputs, with sentinels and END, take `steps`."""
    def taken(length):
        hidden, spans = span_counts(length, share, mean_length)
        return length - hidden + spans + 1

    length = 2
    while taken(length + 1) <= steps:
        length += 1
    return length


@dataclasses.dataclass(frozen=True)
class SpanCorruption(Translation):
    """The loss of a translation, of pairs that are made of a text: see `data.text.span_corruption`."""

    data: ClassVar[str] = 'spans'
    options: ClassVar[type] = Smoothing

    @classmethod
    def settings(cls, options):
        return super(Translation, cls).settings(options)

    @classmethod
    def target_spec(cls, options, B, T):
        longest = text_length(T, options['mask_probability'], options['span_length'])
        hidden, spans = span_counts(longest, options['mask_probability'], options['span_length'])
        return (B, hidden + spans + 1), jnp.int32  # with sentinels and the end

    @classmethod
    def longest_row(cls, options):
        return options['sequence_length']
