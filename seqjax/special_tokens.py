"""Tokens that stand for no text, the same in every vocabulary of a translation; what the text is made of comes after them.

Where text is masked or marked (BERT: [CLS] is START, [SEP] is END), MASK is the fifth of them.
"""

from typing import NamedTuple

PADDING, UNKNOWN, START, END, MASK = range(5)
MARKED_COUNT = 5


class Marks(NamedTuple):
    """The numbers of special tokens in rows that are marked or masked; a pretrained vocabulary has others."""

    padding: int = PADDING
    unknown: int = UNKNOWN
    start: int = START
    end: int = END
    mask: int = MASK
