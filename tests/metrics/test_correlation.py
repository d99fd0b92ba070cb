"""Correlations against scipy and cases that are known."""

import math

import numpy as np
import pytest
import scipy.stats

from seqjax.errors import FieldError
from seqjax.metrics import correlation

NAN = math.nan
REFERENCES = [(correlation.pearson, scipy.stats.pearsonr), (correlation.spearman, scipy.stats.spearmanr)]


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


@pytest.mark.parametrize('score', [correlation.pearson, correlation.spearman])
def test_what_never_changes_has_no_correlation(score):
    x, constant = np.arange(10.0), np.full(10, 0.1)
    for pair in ((constant, x), (x, constant), ([], []), ([1.0], [2.0]), (np.where(x == 3, NAN, x), x)):
        assert math.isnan(score(*pair))
    assert math.isnan(score(x, x, x == 3))


def test_known_correlations():
    x = np.array([1.0, 2, 3, 4])
    assert correlation.spearman(x, np.exp(x)) == 1 and 0 < correlation.pearson(x, np.exp(x)) < 1
    assert correlation.spearman(x, [1, np.inf, 2, 3]) == pytest.approx(0.4) and math.isnan(correlation.pearson(x, [1, np.inf, 2, 3]))
    assert correlation.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    for scale in (1e-300, 1e300):
        assert correlation.pearson(scale * x, [1, 3, 2, 4]) == pytest.approx(0.8, rel=1e-12)
    assert correlation.pearson(1e8 + x, [1, 3, 2, 4]) == pytest.approx(0.8, rel=1e-6)


def test_shapes_must_agree():
    with pytest.raises(FieldError, match=r'must be the same \[N\] for x, y and weights'):
        correlation.pearson(np.arange(3), np.arange(4))
