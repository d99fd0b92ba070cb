"""Scores of classes against plain loops over the examples and cases that are known."""

import math

import numpy as np
import pytest

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
    found = np.stack(classification.precision_recall_f1(counts), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert classification.accuracy(counts) == pytest.approx(sum(truth == answers) / len(truth), rel=1e-12)
    occurring = [f for c, (_, _, f) in enumerate(expected) if c in truth or c in answers]
    assert len(occurring) == 5  # class 4 lowers the mean, though it is never the truth; class 5 does not count
    assert classification.macro_f1(counts) == pytest.approx(sum(occurring) / len(occurring), rel=1e-12)


def test_known_cases():
    counts = np.array([[3, 1], [2, 4]], np.float32)
    assert classification.accuracy(counts) == 0.7
    precision, recall, f1 = classification.precision_recall_f1(counts)
    np.testing.assert_allclose(precision, [3 / 5, 4 / 5])
    np.testing.assert_allclose(recall, [3 / 4, 4 / 6])
    np.testing.assert_allclose(f1, [2 / 3, 8 / 11])
    assert classification.macro_f1(counts) == pytest.approx((2 / 3 + 8 / 11) / 2)
    assert classification.macro_f1(np.diag([5, 0, 2])) == classification.accuracy(np.diag([5, 0, 2])) == 1


def test_nothing_to_score():
    nothing = np.zeros((3, 3), np.int32)
    assert math.isnan(classification.accuracy(nothing)) and math.isnan(classification.macro_f1(nothing))
    for scores in classification.precision_recall_f1(nothing):
        np.testing.assert_array_equal(scores, [NAN] * 3)


@pytest.mark.parametrize('counts', [np.zeros((2, 3)), np.zeros(4)], ids=['oblong', 'flat'])
def test_a_confusion_matrix_is_square(counts):
    with pytest.raises(FieldError, match='counts=.*must be a square matrix, truth by answer'):
        classification.macro_f1(counts)
