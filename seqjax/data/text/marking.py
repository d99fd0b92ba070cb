"""Rows with marks: START and END say where texts begin and end ([CLS] and [SEP] of Devlin et al. 2019).

    START the text END                     a row of one text
    START a text END and another END       of two
"""

import jax
import numpy as np

from seqjax.special_tokens import END, Marks

SHORTEST_ROW = 8  # steps that a limit may leave: marks, and a few tokens between them


def marked(*texts, marks=Marks()):
    """START, then every text [n] with END after it."""
    start, end = np.array([marks.start], np.int32), np.array([marks.end], np.int32)
    return np.concatenate([start, *(part for text in texts for part in (text, end))])


def fit(first, second, room):
    """How many tokens are kept of two texts that share so much room: what is too much is taken from the longer one."""
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    return (shorter, room - shorter) if first < second and shorter == first else (room - shorter, shorter)


def shortened(row, steps, end=END):
    """A row {'inputs': [T], ...} that is marked, in at most so many steps: the marks stay, texts lose their ends as `fit` says.

    end: the number of END. What has a value for every step loses the same steps as the inputs.
    """
    tokens = row['inputs']
    if len(tokens) <= steps:
        return row
    *between, last = np.flatnonzero(tokens == end).tolist()
    begins, ends = [1, *(place + 1 for place in between)], [*between, last]
    room, lengths = steps - 1 - len(ends), [end - begin for begin, end in zip(begins, ends)]
    lengths = [room] if len(ends) == 1 else fit(*lengths, room)
    kept = [0, *(step for begin, end, length in zip(begins, ends, lengths) for step in (*range(begin, begin + length), end))]
    return jax.tree.map(lambda x: x[kept] if np.ndim(x) else x, row)
