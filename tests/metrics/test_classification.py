"""Scores against plain loops over the examples, scipy and cases that are known."""

import math

import numpy as np
import pytest
import scipy.stats

from seqjax.errors import FieldError
from seqjax.metrics import classification

C = 6
NAN = math.nan


def draw(seed, size=60):
    """(truth, answers) of ragged frequency: class 4 is never the truth, class 5 never occurs."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(C, size, p=[0.4, 0.3, 0.25, 0.05, 0, 0])
    wrong = rng.choice(C, size, p=[0.3, 0.3, 0.2, 0, 0.2, 0])
    return truth, np.where(rng.random(size) < 0.6, truth, wrong)


def matrix(truth, answers):
    counts = np.zeros((C, C), np.int64)
    for i, j in zip(truth, answers):
        counts[i, j] += 1
    return counts


def loop(truth, answers):
    """[(precision, recall, f1)] of every class, from the examples one by one."""
    found = []
    for c in range(C):
        right = sum(1 for i, j in zip(truth, answers) if i == c and j == c)
        true, answered = sum(1 for i in truth if i == c), sum(1 for j in answers if j == c)
        p, r = right / answered if answered else NAN, right / true if true else NAN
        if not true and not answered:
            f = NAN
        elif not right:
            f = 0.0
        else:
            f = 2 * p * r / (p + r)
        found.append((p, r, f))
    return found


@pytest.mark.parametrize('seed', range(5))
def test_classes_are_scored_as_in_a_loop_over_the_examples(seed):
    truth, answers = draw(seed)
    counts, expected = matrix(truth, answers), loop(truth, answers)
    found = np.stack([classification.precision(counts), classification.recall(counts), classification.f1(counts)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert classification.accuracy(counts) == pytest.approx(sum(truth == answers) / len(truth), rel=1e-12)
    occurring = [f for c, (_, _, f) in enumerate(expected) if c in truth or c in answers]
    assert len(occurring) == 5  # class 4 lowers the mean, though it is never the truth; class 5 does not count
    assert classification.macro_f1(counts) == pytest.approx(sum(occurring) / len(occurring), rel=1e-12)


def test_known_cases():
    counts = np.array([[3, 1], [2, 4]], np.float32)
    assert classification.accuracy(counts) == 0.7
    np.testing.assert_allclose(classification.precision(counts), [3 / 5, 4 / 5])
    np.testing.assert_allclose(classification.recall(counts), [3 / 4, 4 / 6])
    np.testing.assert_allclose(classification.f1(counts), [2 / 3, 8 / 11])
    assert classification.macro_f1(counts) == pytest.approx((2 / 3 + 8 / 11) / 2)
    assert classification.macro_f1(np.diag([5, 0, 2])) == classification.accuracy(np.diag([5, 0, 2])) == 1


def test_nothing_to_score():
    nothing = np.zeros((3, 3), np.int32)
    assert math.isnan(classification.accuracy(nothing)) and math.isnan(classification.macro_f1(nothing))
    for score in (classification.precision, classification.recall, classification.f1):
        np.testing.assert_array_equal(score(nothing), [NAN] * 3)


@pytest.mark.parametrize('counts', [np.zeros((2, 3)), np.zeros(4)], ids=['oblong', 'flat'])
def test_a_confusion_matrix_is_square(counts):
    with pytest.raises(FieldError, match='counts=.*must be a square matrix, truth by answer'):
        classification.macro_f1(counts)


REFERENCES = [(classification.pearson, scipy.stats.pearsonr), (classification.spearman, scipy.stats.spearmanr)]


@pytest.mark.parametrize('ours, theirs', REFERENCES, ids=['pearson', 'spearman'])
@pytest.mark.parametrize('ties', [False, True], ids=['distinct', 'ties'])
@pytest.mark.parametrize('size', [2, 3, 50])
def test_correlations_are_those_of_scipy(ours, theirs, ties, size):
    rng = np.random.default_rng(size)
    x = rng.normal(size=size)
    y = 0.5 * x + rng.normal(size=size)
    if ties:
        x, y = np.round(2 * x), np.round(2 * y)
        x[0], y[0] = 9, -9  # not constant
    assert ours(x, y) == pytest.approx(theirs(x, y).statistic, rel=1e-12)
    at = rng.integers(0, size + 1, size)
    padded, weights = [np.insert(part, at, NAN) for part in (x, y)], np.insert(np.ones(size), at, 0)
    assert ours(*padded, weights) == ours(*padded, weights > 0) == ours(x, y)


@pytest.mark.parametrize('score', [classification.pearson, classification.spearman])
def test_what_never_changes_has_no_correlation(score):
    x, constant = np.arange(10.0), np.full(10, 0.1)
    for pair in ((constant, x), (x, constant), ([], []), ([1.0], [2.0]), (np.where(x == 3, NAN, x), x)):
        assert math.isnan(score(*pair))
    assert math.isnan(score(x, x, x == 3))


def test_known_correlations():
    x = np.array([1.0, 2, 3, 4])
    assert classification.spearman(x, np.exp(x)) == 1 and 0 < classification.pearson(x, np.exp(x)) < 1
    assert classification.spearman(x, [1, np.inf, 2, 3]) == pytest.approx(0.4) and math.isnan(classification.pearson(x, [1, np.inf, 2, 3]))
    assert classification.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    for scale in (1e-300, 1e300):
        assert classification.pearson(scale * x, [1, 3, 2, 4]) == pytest.approx(0.8, rel=1e-12)
    assert classification.pearson(1e8 + x, [1, 3, 2, 4]) == pytest.approx(0.8, rel=1e-6)


def test_shapes_must_agree():
    with pytest.raises(FieldError, match=r'must be the same \[N\] for x, y and weights'):
        classification.pearson(np.arange(3), np.arange(4))
