"""Masking: which tokens are chosen, what becomes of them, and how often."""

import numpy as np
import pytest

from seqjax.data.text.marking import marked
from seqjax.data.text.masking import Masking, mask
from seqjax.special_tokens import END, MARKED_COUNT, MASK, START, UNKNOWN

V = 1000


def text(rng, length):
    return rng.integers(MARKED_COUNT, V, length).astype(np.int32)


def test_of_the_chosen_tokens_eight_in_ten_are_masked_one_is_drawn_and_one_stays():
    """With 40,000 chosen tokens a share is within five standard deviations, 5 sqrt(p (1 - p) / n), of its own."""
    rng, fates = np.random.default_rng(0), []
    for _ in range(200):
        tokens = text(rng, 1000)
        inputs, places, targets = mask(tokens, rng, vocabulary=V, share=0.2)
        assert len(places) == 200 and (tokens[places] == targets).all()
        fates.append(np.where(inputs[places] == MASK, 0, np.where(inputs[places] != targets, 1, 2)))
    shares = np.bincount(np.concatenate(fates), minlength=3) / 40_000
    drawn = 0.1 * (1 - 1 / (V - MARKED_COUNT))  # one in so many is drawn to be what it was
    for found, expected in zip(shares, (0.8, drawn, 0.2 - drawn)):
        assert abs(found - expected) < 5 * np.sqrt(expected * (1 - expected) / 40_000), shares


def test_every_place_is_as_likely_as_the_others():
    rng, counts = np.random.default_rng(1), np.zeros(20)
    for _ in range(1000):
        counts[mask(text(rng, 20), rng, vocabulary=V, share=0.15)[1]] += 1
    assert counts.sum() == 1000 * 3
    assert (abs(counts - 150) < 5 * np.sqrt(150)).all()


def test_what_is_drawn_may_be_any_token_of_text_and_no_other():
    rng, drawn = np.random.default_rng(2), []
    for _ in range(300):
        tokens = rng.integers(MARKED_COUNT, 12, 30).astype(np.int32)
        inputs, places, targets = mask(tokens, rng, vocabulary=12, share=0.5)
        changed = inputs[places]
        drawn.append(changed[(changed != MASK) & (changed != targets)])
    assert set(np.concatenate(drawn).tolist()) == set(range(MARKED_COUNT, 12))


def test_marks_and_unknown_tokens_are_never_chosen():
    rng = np.random.default_rng(3)
    for _ in range(150):
        first, second = text(rng, rng.integers(1, 9)), text(rng, rng.integers(1, 9))
        first[rng.random(len(first)) < 0.3] = UNKNOWN
        tokens = marked(first, second)
        inputs, places, targets = mask(tokens, rng, vocabulary=V, share=0.5)
        special = tokens < MARKED_COUNT
        assert not special[places].any() and (inputs[special] == tokens[special]).all()
        untouched = np.setdiff1d(np.arange(len(tokens)), places)
        assert (inputs[untouched] == tokens[untouched]).all() and (np.diff(places) > 0).all()
        assert len(places) == max(1, round(0.5 * (~special).sum())) and targets.min() >= MARKED_COUNT
    nothing = marked(np.full(4, UNKNOWN, np.int32))
    assert [len(found) for found in mask(nothing, rng, vocabulary=V, share=0.5)] == [6, 0, 0]


@pytest.mark.parametrize('share', [0.01, 0.15, 0.5, 0.99])
def test_a_row_has_one_size_whatever_the_texts(share):
    rng, hide = np.random.default_rng(4), Masking(20, V, share)
    for _ in range(100):
        lengths = rng.integers(1, 9, 2)
        row = hide(*(text(rng, n) for n in lengths), rng=rng)
        assert {name: np.shape(value) for name, value in row.items()} == dict(
            inputs=(20,), lengths=(), places=(hide.most,), targets=(hide.most,), weights=(hide.most,))
        assert row['lengths'] == lengths.sum() + 3 and (row['inputs'][row['lengths']:] == 0).all()
        counted = row['weights'] > 0
        assert counted.sum() == max(1, round(share * lengths.sum())) and (np.diff(counted.astype(int)) <= 0).all()
        assert (row['places'][~counted] == 0).all() and (row['targets'][~counted] == 0).all()
        assert row['inputs'][0] == START and (row['inputs'] == END).sum() == 2
    full = hide(text(rng, 18), rng=rng)
    assert full['weights'].all() and full['lengths'] == 20


def test_nothing_of_the_text_is_changed_in_place():
    rng = np.random.default_rng(5)
    tokens = text(rng, 30)
    before = tokens.copy()
    mask(tokens, rng, vocabulary=V, share=0.9)
    assert (tokens == before).all()
