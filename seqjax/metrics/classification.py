"""Scores of classes or tags, from a confusion matrix, by scikit-learn.

A confusion matrix holds counts [C, C]: row i, column j is how often the target was i and the prediction j. In tagging, a tag
is a class.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from seqjax.errors import FieldError


def accuracy(confusion: ArrayLike) -> float:
    """The share of all predictions that are right; NaN without any."""
    counts = _checked(confusion)
    return float(np.trace(counts) / counts.sum()) if counts.any() else float('nan')


def precision_recall_f1(confusion: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of every class, [C] each, NaN where it is not defined:

        precision    right / predicted
        recall       right / true
        F1           2 right / (true + predicted), their harmonic mean; 0 for a class that occurs and was never right
    """
    from sklearn.metrics import precision_recall_fscore_support  # here, because it takes a while to import

    counts = _checked(confusion)
    if not counts.any():
        return (np.full(len(counts), np.nan),) * 3
    true, predicted = (places.ravel() for places in np.indices(counts.shape))
    return precision_recall_fscore_support(true, predicted, sample_weight=counts.ravel(), labels=np.arange(len(counts)),
                                           zero_division=np.nan)[:3]


def macro_f1(confusion: ArrayLike) -> float:
    """The mean of F1 over the classes that occur, as a target or a prediction; the others are left out. NaN without any."""
    *_, scores = precision_recall_f1(confusion)
    occurring = scores[~np.isnan(scores)]
    return float(occurring.mean()) if len(occurring) else float('nan')


def f1_of_tags(confusion: ArrayLike, tags: Sequence[str]) -> dict[str, float]:
    """{tag: its F1}, of the tags that occur as targets."""
    true = _checked(confusion).sum(axis=1)
    return {tag: float(score) for tag, score, count in zip(tags, precision_recall_f1(confusion)[2], true) if count}


def _checked(confusion):
    counts = np.asarray(confusion, np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise FieldError('counts', counts.shape, 'must be a square matrix, truth by answer')
    return counts
