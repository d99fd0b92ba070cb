"""Sequences of any lengths in batches of few padded lengths, so that few programs are compiled."""

from collections.abc import Iterator, Sequence

import numpy as np

SHORTEST = 16


def of_like_length(lengths: np.ndarray, batch_size: int, shapes: Sequence[int] | None = None,
                   longest: int = 0) -> Iterator[tuple[int, np.ndarray]]:
    """(padded length, places of at most batch_size rows) for all rows that have tokens: few lengths, few programs.

    shapes: the lengths that there are; the longest rows come first, so that a last batch of few rows is one of few steps.
    Without: powers of two from 16, or `longest`, which no row is longer than; every batch has rows of one padded length.
    """
    if shapes is None:
        padded = np.array([padded_length(length) for length in lengths], int)
        padded = np.minimum(padded, longest) if longest else padded
        groups = [(shape, np.flatnonzero((padded == shape) & (lengths > 0))) for shape in np.unique(padded)]
    else:
        if len(lengths) and lengths.max() > shapes[-1]:
            raise ValueError(f'row {lengths.argmax()} has {lengths.max()} tokens, and the longest of shapes is {shapes[-1]}; '
                             'split the row, or declare a longer shape')
        places = np.flatnonzero(lengths)
        groups = [(None, places[np.argsort(-lengths[places], kind='stable')])]
    for shape, places in groups:
        for begin in range(0, len(places), batch_size):
            some = places[begin:begin + batch_size]
            yield shape or next(shape for shape in shapes if shape >= lengths[some[0]]), some


def padded_length(length: int) -> int:
    """The next power of two, from SHORTEST on."""
    return max(SHORTEST, 1 << max(int(length) - 1, 0).bit_length())
