"""Marked rows: what is cut is the longer text, one token after another, and marks never are."""

import numpy as np
import pytest

from seqjax.data.text.marking import fit, marked, shortened
from seqjax.special_tokens import END, START


def test_marks_are_around_every_text():
    one, two = np.array([7, 8], np.int32), np.array([9], np.int32)
    assert marked(one).tolist() == [START, 7, 8, END] and marked(one).dtype == np.int32
    assert marked(one, two).tolist() == [START, 7, 8, END, 9, END]
    assert marked(one[:0]).tolist() == [START, END]


def one_by_one(first, second, room):
    """What too much there is, token by token: from the longer text, from the second where both are as long."""
    while first + second > room:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    return first, second


def test_two_texts_share_the_room_as_if_tokens_were_taken_one_by_one():
    for first in range(12):
        for second in range(12):
            for room in range(13):
                assert fit(first, second, room) == one_by_one(first, second, room), (first, second, room)


@pytest.mark.parametrize('texts', [1, 2])
def test_a_row_that_is_too_long_keeps_its_marks_and_the_beginnings_of_its_texts(texts):
    rng = np.random.default_rng(0)
    for _ in range(100):
        given = [rng.integers(5, 99, rng.integers(1, 12)).astype(np.int32) for _ in range(texts)]
        row = dict(inputs=marked(*given), targets=np.int32(3))
        row['weights'] = row['inputs'] * 10  # something for every step
        steps = int(rng.integers(8, 20))
        cut = shortened(row, steps)
        lengths = [min(len(given[0]), steps - 2)] if texts == 1 else one_by_one(*map(len, given), steps - 3)
        assert cut['inputs'].tolist() == marked(*(text[:n] for text, n in zip(given, lengths))).tolist()
        assert len(cut['inputs']) == min(steps, len(row['inputs'])) and cut['targets'] == 3
        assert (cut['weights'] == cut['inputs'] * 10).all()
