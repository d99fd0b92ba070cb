"""The regression task against a plain loop over rows."""

import math

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from seqjax.tasks import Regression, Sums

B, T, D = 6, 3, 2


class Mean(linen.Module):
    """inputs [B, T, D] -> [B, 1], in bfloat16 and with dropout: all that a task must deal with."""

    @linen.compact
    def __call__(self, inputs, lengths=None, *, train=False):
        kernel = self.param('kernel', linen.with_logical_partitioning(linen.initializers.normal(1.0), ('embed',)), (D,))
        x = linen.Dropout(0.5, deterministic=not train)(inputs)
        return (x @ kernel).mean(axis=1, keepdims=True).astype(jnp.bfloat16)


TASK = Regression(Mean(), offset=0.5, scale=3.0)
SUMS = jax.jit(TASK.__call__)


@pytest.fixture(scope='module')
def batch():
    rng = np.random.default_rng(0)
    return dict(inputs=rng.normal(size=(B, T, D)).astype(np.float32), targets=rng.normal(size=B).astype(np.float32),
                weights=np.array([1, 0, 1, 1, 1, 1], np.float32))


@pytest.fixture(scope='module')
def params(batch):
    return TASK.plain_init(jax.random.key(0), batch)


def predictions(params, batch):
    """In the unit of the targets, of the counted rows."""
    outputs = [float(jnp.bfloat16(float((inputs @ np.asarray(params['kernel'])).mean()))) for inputs in batch['inputs']]
    return np.array([0.5 + 3 * output for output, weight in zip(outputs, batch['weights']) if weight])


def test_sums_are_those_of_a_loop_over_the_counted_rows(params, batch):
    errors = predictions(params, batch) - batch['targets'][batch['weights'] == 1]
    sums = SUMS(params, batch)
    np.testing.assert_allclose([sums.loss, sums.metrics['absolute_error']], [(errors ** 2).sum() / 9, abs(errors).sum()],
                               rtol=1e-2)
    assert sums.loss.dtype == jnp.float32 and sums.weight == 5


def test_rows_of_weight_0_change_nothing_and_parts_add_up(params, batch):
    targets = np.where(batch['weights'] == 1, batch['targets'], 99).astype(np.float32)
    whole, other = SUMS(params, batch), SUMS(params, {**batch, 'targets': targets})
    jax.tree.map(np.testing.assert_array_equal, whole[:3], other[:3])
    assert TASK.summary(jax.device_get(whole)) == TASK.summary(jax.device_get(other))
    parts = [SUMS(params, jax.tree.map(lambda rows: rows[b:b + 1], batch)) for b in range(B)]
    added = jax.tree.map(lambda *each: np.sum(each), *(part[:3] for part in parts))
    jax.tree.map(lambda one, total: np.testing.assert_allclose(one, total, rtol=1e-5), whole[:3], added)
    for name, values in whole.rows.items():
        np.testing.assert_array_equal(values, np.concatenate([part.rows[name] for part in parts]))


def test_dropout_draws_from_the_key_and_only_in_training(params, batch):
    sums = [SUMS(params, batch, key) for key in (None, None, jax.random.key(1), jax.random.key(2))]
    losses = [float(each.loss) for each in sums]
    assert losses[0] == losses[1] and len(set(losses)) == 3
    assert [sorted(each.rows) for each in sums[1:3]] == [['predictions', 'targets', 'weights'], []]


def test_the_summary_is_in_the_unit_of_the_targets_and_has_the_correlations(params, batch):
    summary = TASK.summary(jax.device_get(SUMS(params, batch)))
    guessed, targets = predictions(params, batch), batch['targets'][batch['weights'] == 1]
    expected = dict(loss=((guessed - targets) ** 2).mean() / 9, absolute_error=abs(guessed - targets).mean(),
                    root_mean_squared_error=math.sqrt(((guessed - targets) ** 2).mean()),
                    pearson=scipy.stats.pearsonr(guessed, targets).statistic,
                    spearman=scipy.stats.spearmanr(guessed, targets).statistic)
    assert summary == pytest.approx(expected, rel=1e-2)


def test_a_loss_that_is_not_finite_has_a_summary():
    rows = dict(predictions=np.array([math.nan, 1]), targets=np.array([0., 1]), weights=np.ones(2))
    summary = TASK.summary(Sums(np.float32(math.nan), np.float32(2), {}, rows))
    assert math.isnan(summary['root_mean_squared_error']) and math.isnan(summary['spearman'])


def test_predictions_are_in_the_unit_of_the_targets(params, batch):
    found = TASK.predict(params, batch)['predictions']
    np.testing.assert_allclose(np.asarray(found, np.float32)[batch['weights'] == 1], predictions(params, batch), rtol=1e-2)
