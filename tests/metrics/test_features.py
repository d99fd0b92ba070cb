"""Spread and rank of features against closed forms, and what is said where they have collapsed."""

import math

import numpy as np
import pytest

from seqjax.metrics import measure
from seqjax.metrics.features import collapsed, effective_rank, feature_std


def test_the_spread_is_that_of_the_definition():
    x = np.random.default_rng(0).normal(size=(50, 7)) + 1
    total = 0.0
    for d in range(7):
        column = [row[d] / math.sqrt(sum(value ** 2 for value in row)) for row in x]
        total += sum((value - sum(column) / 50) ** 2 for value in column) / 50
    assert feature_std(x) == pytest.approx(math.sqrt(total))


def test_the_spread_is_0_of_equal_rows_and_1_of_rows_that_point_everywhere():
    assert feature_std(np.full((9, 4), 3.0)) == pytest.approx(0, abs=1e-7)
    assert feature_std(np.concatenate([np.eye(4), -np.eye(4)])) == pytest.approx(1)
    assert feature_std(np.zeros((3, 2))) == 0


@pytest.mark.parametrize('rows, width', [(200, 6), (6, 20)])
def test_the_effective_rank_is_that_of_the_singular_values(rows, width):
    x = np.random.default_rng(0).normal(size=(rows, width)) * np.arange(1, width + 1)
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False)
    p = values[values > 1e-9] / values.sum()
    assert effective_rank(x) == pytest.approx(np.prod(p ** -p), rel=1e-5)


def test_the_effective_rank_of_few_directions_is_their_number():
    rng = np.random.default_rng(0)
    orthogonal, _ = np.linalg.qr(rng.normal(size=(400, 3)) - 0)
    centred = np.linalg.qr(orthogonal - orthogonal.mean(axis=0))[0]
    assert effective_rank(centred @ np.linalg.qr(rng.normal(size=(9, 9)))[0][:3] + 5) == pytest.approx(3, rel=1e-4)
    assert effective_rank(np.outer(rng.normal(size=50), np.ones(4))) == pytest.approx(1, abs=1e-3)
    assert effective_rank(np.full((5, 4), 2.0)) == 1


@pytest.mark.parametrize('numbers, says', [
    (dict(feature_std=0.9, feature_rank=30.0, loss=2.0, guessing=6.2), ''),
    (dict(feature_std=0.001, feature_rank=30.0), 'all rows have nearly the same features'),
    (dict(feature_std=0.7, feature_rank=1.1), 'features vary in one direction only'),
    (dict(loss=6.24, guessing=math.log(511)), 'nothing is learned: the loss is that of guessing'),
    (dict(loss=6.4, guessing=math.log(511)), 'worse than guessing: the loss is 6.4000, guessing 6.2364'),
    (dict(loss=8.8, guessing=8.3, target_entropy=2.0, mean_target_entropy=7.0), ''),
    (dict(loss=8.3, guessing=8.3, target_entropy=2.0, mean_target_entropy=7.0), ''),
    (dict(loss=3.0, guessing=math.log(4096), target_entropy=8.317), 'the targets are uniform'),
    (dict(loss=3.0, guessing=8.3, target_entropy=0.01, mean_target_entropy=0.02), 'all rows have the same target'),
    (dict(loss=3.0, guessing=8.3, target_entropy=2.0, mean_target_entropy=7.0), ''),
    (dict(loss=math.nan), 'not finite'),
    (dict(accuracy=0.1), ''),
])
def test_a_collapse_has_a_sentence(numbers, says):
    found = collapsed(numbers)
    assert says in found and bool(says) == bool(found)


def test_an_evaluation_with_features_reports_them():
    rng = np.random.default_rng(0)
    found = measure(dict(features=rng.normal(size=(40, 5)), targets=np.arange(40) % 2))
    assert found.keys() >= {'feature_std', 'feature_rank', 'knn_accuracy'} and 3 < found['feature_rank'] <= 5
