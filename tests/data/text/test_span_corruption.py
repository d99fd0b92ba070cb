"""Span corruption: put together again, inputs and targets are the text; sizes are what they were said to be."""

import collections
import itertools

import numpy as np
import pytest

from seqjax.data.text.span_corruption import SENTINELS, SpanCorruption
from seqjax.tasks import span_counts, text_length
from seqjax.special_tokens import END
from tests.reference.spans import put_back

FIRST = 1000


def text(rng, length):
    return rng.integers(4, FIRST, length).astype(np.int32)


def test_the_figure_of_the_paper():
    inputs, targets = [10, 11, FIRST, 14, 15, FIRST + 1, END], [FIRST, 12, 13, FIRST + 1, 16, END]
    assert put_back(inputs, targets, FIRST).tolist() == [10, 11, 12, 13, 14, 15, 16]
    assert put_back([10, FIRST, END, 7], [FIRST + 1, 12, END], FIRST).tolist() == [10]  # nothing was said of it
    assert put_back([10, FIRST], [9, FIRST, 12], FIRST).tolist() == [10, 12]


@pytest.mark.parametrize('share, mean', [(0.15, 3.0), (0.15, 1.0), (0.5, 3.0), (0.5, 10.0), (0.9, 2.0), (0.01, 3.0)])
def test_any_text_can_be_put_back(share, mean):
    rng = np.random.default_rng(0)
    for _ in range(200):
        length = int(rng.integers(2, 80))
        given, hide = text(rng, length), SpanCorruption(80, FIRST, share, mean)
        inputs, targets = hide.corrupt(given, rng)
        assert put_back(inputs, targets, FIRST).tolist() == given.tolist()
        hidden, spans = span_counts(length, share, mean)
        assert len(inputs) == length - hidden + spans + 1 and len(targets) == hidden + spans + 1
        assert inputs[-1] == targets[-1] == END and inputs[0] == given[0]  # a kept span is the first
        for side in (inputs, targets):
            assert side[side >= FIRST].tolist() == list(range(FIRST, FIRST + spans)) and side.dtype == np.int32
        assert (np.diff(np.flatnonzero(inputs >= FIRST)) > 1).all()  # spans do not touch
        assert (np.diff(np.flatnonzero(targets >= FIRST)) > 1).all()


@pytest.mark.parametrize('share, mean', [(0.15, 3.0), (0.5, 2.0), (0.3, 1.0)])
def test_rows_have_one_size_and_the_longest_text_fills_them(share, mean):
    rng = np.random.default_rng(1)
    for steps in (8, 16, 33, 128):
        longest = text_length(steps, share, mean)
        hide = SpanCorruption(longest, FIRST, share, mean)
        S, T = hide.sizes
        assert steps - 1 <= S <= steps
        for length in {2, 3, longest // 2, longest - 1, longest} - {0, 1}:
            row = hide(text(rng, length), rng=rng)
            assert {name: np.shape(value) for name, value in row.items()} == dict(inputs=(S,), lengths=(), targets=(T,), weights=(T,))
            assert (row['inputs'][row['lengths']:] == 0).all() and row['inputs'][row['lengths'] - 1] == END
            counted = int(row['weights'].sum())
            assert row['targets'][counted - 1] == END and (row['targets'][counted:] == 0).all()
        assert row['lengths'] <= S


def test_every_way_to_hide_is_as_likely_as_the_others():
    """Six tokens, three of them in two spans: two ways to keep three in two spans, times two to hide three."""
    rng, hide, found = np.random.default_rng(2), SpanCorruption(6, FIRST, 0.5, 1.5), collections.Counter()
    given = np.arange(4, 10, dtype=np.int32)
    for _ in range(1200):
        found[tuple(hide.corrupt(given, rng)[0].tolist())] += 1
    a, b = FIRST, FIRST + 1
    expected = set()
    for kept, lost in itertools.product(((1, 2), (2, 1)), repeat=2):
        second = 4 + kept[0] + lost[0]
        expected.add((*range(4, 4 + kept[0]), a, *range(second, second + kept[1]), b, END))
    assert set(found) == expected and len(expected) == 4
    assert all(abs(count - 300) < 5 * np.sqrt(225) for count in found.values())


def test_the_share_and_the_mean_length_are_the_ones_asked_for():
    hidden, spans = span_counts(1000, 0.15, 3.0)
    assert (hidden, spans) == (150, 50) and SENTINELS == 100
    assert span_counts(2, 0.15, 3.0) == (1, 1) and span_counts(2, 0.99, 1.0) == (1, 1)
