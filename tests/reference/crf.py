"""The conditional random field by counting: all C^T paths of a row, one after the other, in float64."""

import itertools

import numpy as np


def path_scores(scores, transitions, length):
    """{path: score} of one row. scores: [T, C]."""
    start, between, end = (np.asarray(part, np.float64) for part in transitions)
    found = {}
    for path in itertools.product(range(scores.shape[1]), repeat=int(length)):
        total = sum(float(scores[t, label]) for t, label in enumerate(path))
        total += sum(between[a, b] for a, b in zip(path, path[1:]))
        found[path] = total + (start[path[0]] + end[path[-1]] if path else 0)
    return found


def log_partition(scores, transitions, length):
    values = np.array(list(path_scores(scores, transitions, length).values()))
    return np.log(np.exp(values - values.max()).sum()) + values.max()


def best_path(scores, transitions, length):
    found = path_scores(scores, transitions, length)
    return max(found, key=found.get)


def marginals(scores, transitions, length):
    """[T, C]: the probability of every label at every step, zero past the length."""
    found, result = path_scores(scores, transitions, length), np.zeros(scores.shape)
    total = log_partition(scores, transitions, length)
    for path, score in found.items():
        for t, label in enumerate(path):
            result[t, label] += np.exp(score - total)
    return result
