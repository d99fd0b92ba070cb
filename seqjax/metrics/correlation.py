"""Scores of predicted numbers: their correlations with the targets, by scipy."""

import numpy as np
from numpy.typing import ArrayLike

from seqjax.errors import FieldError


def pearson(predictions: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Pearson's correlation of two arrays [N], cov(x, y) / (std(x) std(y)), over the entries whose weight is not 0.

    NaN where either is constant or not finite.
    """
    x, y = _counted(predictions, targets, weights)
    if not (_varies(x) and _varies(y) and np.isfinite(x).all() and np.isfinite(y).all()):
        return float('nan')
    from scipy.stats import pearsonr  # here, because it takes a while to import

    return float(pearsonr(x, y).statistic)


def spearman(predictions: ArrayLike, targets: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Pearson's correlation of the ranks (Spearman 1904), where equal values share the mean of theirs.

    NaN where either is constant or holds a NaN.
    """
    x, y = _counted(predictions, targets, weights)
    if not (_varies(x) and _varies(y)):
        return float('nan')
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)


def _counted(x, y, weights):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    counts = np.ones(x.shape, bool) if weights is None else np.asarray(weights).astype(bool)
    if x.ndim != 1 or not x.shape == y.shape == counts.shape:
        raise FieldError('shapes', (x.shape, y.shape, counts.shape), 'must be the same [N] for x, y and weights')
    return x[counts], y[counts]


def _varies(x):
    """Whether a correlation is defined: not where x is constant, or where its extremes are NaN."""
    return len(x) > 1 and x.min() < x.max()
