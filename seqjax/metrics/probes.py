"""What frozen features are good for: a linear probe, weighted k-nearest neighbours, and few labels per class.

Nothing here changes a network: features [N, D] and classes [N] go in, accuracies come out.
"""

from collections.abc import Sequence
from typing import NamedTuple
import warnings

import numpy as np
from numpy.typing import ArrayLike

STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0)  # C of the logistic regression, the inverse of the penalty
ROWS = 1000  # test rows whose neighbours are looked for at a time
GROUP = 64  # columns of which only the largest is looked at first


class Probe(NamedTuple):
    """accuracy: of the test rows; strength: the C that was best on the validation rows; validation: its accuracy there."""

    accuracy: float
    strength: float
    validation: float


def linear_probe(train: tuple[ArrayLike, ArrayLike], validation: tuple[ArrayLike, ArrayLike], test: tuple[ArrayLike, ArrayLike],
                 strengths: Sequence[float] = STRENGTHS, iterations: int = 300) -> Probe:
    """Multinomial logistic regression on frozen features, by L-BFGS.

        W = argmin sum_n -log softmax(W x_n + b)[y_n] + |W|^2 / (2 C),      x standardised by the training rows

    C is the one with the best accuracy on the validation rows; the test rows are read once, at the end. The network that made
    the features is not here, so it cannot be trained by accident.

    Args:
        train, validation, test: (features [N, D], classes [N]).
        strengths: the C that are tried.
        iterations: of L-BFGS, at most.
    """
    model, standardise = _Logistic(iterations), _standardiser(train[0])
    rows = {name: (standardise(x), np.asarray(y)) for name, (x, y) in dict(train=train, validation=validation, test=test).items()}
    best = None
    for strength in strengths:  # each begins where the one before ended: the path from strong to weak penalties is short
        model.fit(*rows['train'], strength)
        found = model.score(*rows['validation']), strength, model.weights()
        best = found if best is None or found[0] > best[0] else best
    validation, strength, weights = best
    return Probe(model.with_weights(weights).score(*rows['test']), strength, validation)


def nearest_neighbours(train: tuple[ArrayLike, ArrayLike], features: ArrayLike | None = None, k: int = 20,
                       temperature: float = 0.07) -> np.ndarray:
    """[N], the classes that weighted k-nearest neighbours gives to the rows of `features`.

        score(c) = sum over the k nearest n of class c of exp(cos(x, x_n) / T)

    Wu et al. 2018, "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", section 3.4.

    Args:
        train: (features [M, D], classes [M] from 0).
        features: [N, D]; None: the training rows themselves, each of which is given the class of the others.
    """
    bank, classes, found = _unit(train[0]), np.asarray(train[1]), []
    rows = bank if features is None else _unit(features)
    k, count = min(k, len(bank) - (features is None)), int(classes.max()) + 1
    for start in range(0, len(rows), ROWS):
        similar = rows[start:start + ROWS] @ bank.T                                         # [R, M]
        places = np.arange(len(similar))
        if features is None:
            similar[places, start + places] = -np.inf
        nearest = _largest(similar, k)
        weights = np.exp((np.take_along_axis(similar, nearest, axis=1) - 1) / temperature)  # - 1: the same order, no overflow
        scores = np.zeros((len(similar), count))
        np.add.at(scores, (places[:, None], classes[nearest]), weights)
        found.append(scores.argmax(axis=1))
    return np.concatenate(found)


def knn_accuracy(train: tuple[ArrayLike, ArrayLike], test: tuple[ArrayLike, ArrayLike], k: int = 20,
                 temperature: float = 0.07) -> float:
    """The share of test rows that `nearest_neighbours` gets right."""
    return float(np.mean(nearest_neighbours(train, test[0], k, temperature) == np.asarray(test[1])))


def leave_one_out(features: ArrayLike, targets: ArrayLike) -> float:
    """The same where every row is classified by all others of its set: to watch features while they are learned."""
    return float(np.mean(nearest_neighbours((features, targets)) == np.asarray(targets)))


def few_shot(train: tuple[ArrayLike, ArrayLike], test: tuple[ArrayLike, ArrayLike], labels: int, draws: int = 5, seed: int = 0,
             strength: float = 0.1) -> list[float]:
    """Accuracies of the test rows, one a draw, of a linear probe that has seen `labels` rows of every class.

    There are no validation rows to choose the penalty by with so few labels: it is the same for every set of features. A class
    with fewer rows gives those that it has.
    """
    classes, found = np.asarray(train[1]), []
    for draw in range(draws):
        chosen = few_rows(classes, labels, seed + draw)
        x = np.asarray(train[0])[chosen]
        standardise = _standardiser(x)
        model = _Logistic().fit(standardise(x), classes[chosen], strength)
        found.append(model.score(standardise(test[0]), np.asarray(test[1])))
    return found


def few_rows(classes: ArrayLike, labels: int, seed: int) -> np.ndarray:
    """Numbers of `labels` rows of every class, drawn without replacement and in their order."""
    classes, rng = np.asarray(classes), np.random.default_rng(seed)
    return np.sort(np.concatenate([rng.permutation(np.flatnonzero(classes == c))[:labels] for c in np.unique(classes)]))


class _Logistic:
    """scikit-learn's, which begins every fit where the one before ended, and may stop before it has converged."""

    def __init__(self, iterations=300):
        from sklearn.linear_model import LogisticRegression  # here, because it takes a while to import

        self._model = LogisticRegression(max_iter=iterations, warm_start=True, tol=1e-3)

    def fit(self, x, y, strength):
        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            warnings.simplefilter('ignore', ConvergenceWarning)
            self._model.set_params(C=strength).fit(x, y)
        return self

    def weights(self):
        return self._model.coef_.copy(), self._model.intercept_.copy()

    def with_weights(self, weights):
        self._model.coef_, self._model.intercept_ = weights
        return self

    def score(self, x, y):
        return float(self._model.score(x, y))


def _standardiser(features):
    """features -> the same, less the mean and over the deviation of these; a feature that never varies becomes 0."""
    x = np.asarray(features, np.float32)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    scale = np.where(deviation > 1e-6, deviation, np.inf).astype(np.float32)
    return lambda features: (np.asarray(features, np.float32) - mean) / scale


def _largest(scores, k):
    """[R, k], the columns of the k largest of each row of [R, M], in no order.

    They lie in the k groups of columns whose maxima are largest, and only those are partitioned.
    """
    R, M = scores.shape
    groups = M // GROUP
    if groups <= k:
        return np.argpartition(scores, M - k, axis=1)[:, M - k:]
    whole = scores[:, :groups * GROUP].reshape(R, GROUP, groups)  # every groups-th column
    best = np.argpartition(whole.max(axis=1), groups - k, axis=1)[:, groups - k:]  # [R, k]
    columns = (best[:, None] + groups * np.arange(GROUP)[:, None]).reshape(R, -1)
    rest = np.broadcast_to(np.arange(groups * GROUP, M), (R, M - groups * GROUP))
    columns = np.concatenate([columns, rest], axis=1)                   # [R, k GROUP + rest]
    kept = np.take_along_axis(scores, columns, axis=1)
    chosen = np.argpartition(kept, kept.shape[1] - k, axis=1)[:, kept.shape[1] - k:]
    return np.take_along_axis(columns, chosen, axis=1)


def _unit(features):
    x = np.asarray(features, np.float32)
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
