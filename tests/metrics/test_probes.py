"""Linear probe, weighted k-nearest neighbours and few labels per class, against loops and closed forms."""

import numpy as np
import pytest

from seqjax.metrics import probes
from seqjax.metrics.probes import few_rows, few_shot, knn_accuracy, leave_one_out, linear_probe, nearest_neighbours

C, D = 3, 5


def draw(rows, seed, spread=1.0):
    """Rows around a centre for every class."""
    centres = 3 * np.random.default_rng(9).normal(size=(C, D))
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, C, rows)
    return np.float32(centres[classes] + spread * rng.normal(size=(rows, D))), classes


def loop(train, features, k, temperature, itself=False):
    """Section 3.4 of Wu et al., a row after another."""
    unit = lambda x: np.float64(x) / np.linalg.norm(x)
    found = []
    for n, x in enumerate(features):
        similar = [(unit(x) @ unit(z), c) for m, (z, c) in enumerate(zip(*train)) if not (itself and m == n)]
        scores = np.zeros(C)
        for s, c in sorted(similar, key=lambda pair: -pair[0])[:k]:
            scores[c] += np.exp(s / temperature)
        found.append(scores.argmax())
    return found


@pytest.mark.parametrize('k, temperature', [(1, 0.07), (5, 0.07), (20, 1.0), (1000, 0.5)])
def test_neighbours_are_those_of_a_loop(k, temperature):
    train, (features, _) = draw(60, 0, 4.0), draw(30, 1, 4.0)
    np.testing.assert_array_equal(nearest_neighbours(train, features, k, temperature), loop(train, features, k, temperature))


@pytest.mark.parametrize('M, k', [(1, 1), (64, 1), (200, 2), (650, 9), (650, 10), (2000, 20)])
def test_the_largest_of_a_row_are_those_of_sorting(M, k):
    scores = np.random.default_rng(M).normal(size=(7, M)).astype(np.float32)
    scores[0], scores[1, ::2], scores[2] = np.sort(scores[0]), 5, 0  # in order, ties, all the same
    found = probes._largest(scores, k)
    assert all(len(set(row)) == k for row in found.tolist())
    values = np.sort(np.take_along_axis(scores, found, axis=1))
    np.testing.assert_array_equal(values, np.sort(scores)[:, M - k:])


def test_the_rows_of_a_set_are_classified_by_the_others():
    train = draw(40, 0, 4.0)
    expected = loop(train, train[0], 20, 0.07, itself=True)
    np.testing.assert_array_equal(nearest_neighbours(train), expected)
    assert leave_one_out(*train) == np.mean(expected == train[1])
    assert knn_accuracy(train, train, k=1) == 1  # where each may look at itself


def test_a_probe_separates_what_a_line_can_and_reads_the_test_rows_only_to_be_measured():
    train, validation, test = (draw(300, seed) for seed in range(3))
    probe = linear_probe(train, validation, test)
    assert probe.accuracy > 0.95 and probe.validation > 0.95
    wrong = (test[0], (test[1] + 1) % C)
    assert linear_probe(train, validation, wrong)[1:] == probe[1:]
    assert linear_probe(train, validation, wrong).accuracy < 0.1


def test_the_test_rows_are_measured_once_with_the_weights_of_the_chosen_penalty(monkeypatch):
    train, validation, test = draw(60, 0, 6.0), draw(70, 1, 6.0), draw(80, 2, 6.0)
    measured, score = [], probes._Logistic.score
    counted = lambda self, x, y: measured.append(len(y)) or score(self, x, y)
    monkeypatch.setattr(probes._Logistic, 'score', counted)
    strengths = 1e-4, 1e-2, 1e2
    found = linear_probe(train, validation, test, strengths)
    assert measured == [70, 70, 70, 80]
    each = {strength: linear_probe(train, validation, test, [strength]) for strength in strengths}
    assert found.validation == max(probe.validation for probe in each.values())
    assert found.strength != 1e2 and abs(found.accuracy - each[found.strength].accuracy) < 0.02


def test_a_probe_has_the_weights_of_its_equation():
    """The gradient of the stated loss is 0 at the weights that are found."""
    (x, y), strength = draw(200, 0, 3.0), 0.01
    x = probes._standardiser(x)(x)
    model = probes._Logistic(2000)
    model._model.set_params(tol=1e-8)
    model = model.fit(np.float64(x), y, strength)._model
    logits = x @ model.coef_.T + model.intercept_
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    slopes = p / p.sum(axis=1, keepdims=True) - np.eye(C)[y]
    np.testing.assert_allclose(slopes.T @ x + model.coef_ / strength, 0, atol=1e-3)


def test_few_labels_are_as_many_of_every_class_and_another_draw_has_others():
    classes = draw(200, 0)[1]
    rows = few_rows(classes, 4, seed=0)
    np.testing.assert_array_equal(np.bincount(classes[rows]), [4] * C)
    assert len(set(rows)) == 4 * C and (np.diff(rows) > 0).all()
    assert not np.array_equal(rows, few_rows(classes, 4, seed=1))
    assert len(few_rows([0, 0, 1], 2, seed=0)) == 3


def test_more_labels_help():
    train, test = draw(500, 0, 4.0), draw(500, 1, 4.0)
    one, many = (np.mean(few_shot(train, test, labels, draws=3)) for labels in (1, 50))
    assert many > one + 0.05
    assert few_shot(train, test, 5, draws=2) == few_shot(train, test, 5, draws=2)


def test_a_feature_that_never_varies_does_not_matter():
    (x, y), (z, t) = draw(100, 0), draw(50, 1)
    constant = lambda x, value: np.concatenate([x, np.full((len(x), 1), value, np.float32)], axis=1)
    same = linear_probe((x, y), (z, t), (z, t))
    assert linear_probe((constant(x, 7), y), (constant(z, 7), t), (constant(z, 9), t)).accuracy == same.accuracy
