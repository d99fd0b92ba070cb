"""Scores of finished answers: of classes or tags from a confusion matrix, of numbers from their correlation.

A confusion matrix holds counts [C, C]: row i, column j is how often the truth was i and the answer j. In tagging, a tag is
a class.
"""

import numpy as np

from seqjax.errors import FieldError


def accuracy(counts):
    """The part of all answers that are right; NaN without any."""
    counts = _checked(counts)
    return float(_divided(np.trace(counts), counts.sum()))


def precision(counts):
    """right / answered, [C]; NaN for a class that was never the answer."""
    counts = _checked(counts)
    return _divided(np.diag(counts), counts.sum(axis=0))


def recall(counts):
    """right / true, [C]; NaN for a class that was never the truth."""
    counts = _checked(counts)
    return _divided(np.diag(counts), counts.sum(axis=1))


def f1(counts):
    """2 right / (true + answered), [C]: the harmonic mean of precision and recall; NaN for a class that never occurs.

    A class that occurs and was never right has 0, also where its precision or its recall is not defined.
    """
    counts = _checked(counts)
    return _divided(2 * np.diag(counts), counts.sum(axis=0) + counts.sum(axis=1))


def macro_f1(counts):
    """The mean of F1 over the classes that occur, as a truth or as an answer; the others are left out. NaN without any."""
    scores = f1(counts)
    occurs = ~np.isnan(scores)
    return float(_divided(scores[occurs].sum(), occurs.sum()))


def pearson(x, y, weights=None):
    """The correlation of x and y, [N] each, over the entries whose weight is not 0.

    cov(x, y) / (std(x) std(y)); NaN where either is constant or not finite.
    """
    x, y = _counted(x, y, weights)
    if not (_varies(x) and _varies(y) and np.isfinite(x).all() and np.isfinite(y).all()):
        return float('nan')
    return float(np.clip(_direction(x) @ _direction(y), -1, 1))


def spearman(x, y, weights=None):
    """Pearson's correlation of the ranks (Spearman 1904), where equal values share the mean of theirs.

    NaN where either is constant or holds a NaN.
    """
    x, y = _counted(x, y, weights)
    if np.isnan(x).any() or np.isnan(y).any():
        return float('nan')
    return pearson(_ranks(x), _ranks(y))


def _checked(counts):
    counts = np.asarray(counts, np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise FieldError('counts', counts.shape, 'must be a square matrix, truth by answer')
    return counts


def _divided(part, whole):
    """part / whole, and NaN where whole is 0."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole != 0)


def _counted(x, y, weights):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    counts = np.ones(x.shape, bool) if weights is None else np.asarray(weights).astype(bool)
    if x.ndim != 1 or not x.shape == y.shape == counts.shape:
        raise FieldError('shapes', (x.shape, y.shape, counts.shape), 'must be the same [N] for x, y and weights')
    return x[counts], y[counts]


def _varies(x):
    return len(x) > 1 and x.min() != x.max()  # the deviation of a constant is not exactly 0


def _direction(x):
    """x - mean with norm 1; scaled first, so that no square overflows or vanishes."""
    x = x / np.abs(x).max()
    x = x - x.mean()
    return x / np.linalg.norm(x)


def _ranks(x):
    """From 1; equal values share the mean of theirs."""
    _, place, times = np.unique(x, return_inverse=True, return_counts=True)
    return (times.cumsum() - (times - 1) / 2)[place]
