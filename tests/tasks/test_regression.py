"""The regression task against a plain loop over rows."""

import math

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import tasks
from seqjax.errors import FieldError
from seqjax.tasks import LanguageModel, Regression

B, T, D = 4, 3, 2


class Mean(linen.Module):
    """inputs [B, T, D] -> [B], in bfloat16 and with dropout: all that a task must deal with."""

    @linen.compact
    def __call__(self, inputs, *, train=False):
        kernel = self.param('kernel', linen.with_logical_partitioning(linen.initializers.normal(1.0), ('embed',)), (D,))
        x = linen.Dropout(0.5, deterministic=not train)(inputs)
        return (x @ kernel).mean(axis=1).astype(jnp.bfloat16)


TASK = Regression(Mean())
SUMS = jax.jit(TASK.__call__)


@pytest.fixture(scope='module')
def batch():
    rng = np.random.default_rng(0)
    return dict(inputs=rng.normal(size=(B, T, D)).astype(np.float32), targets=rng.normal(size=B).astype(np.float32),
                weights=np.array([1, 0, 1, 1], np.float32))


@pytest.fixture(scope='module')
def params(batch):
    return TASK.plain_init(jax.random.key(0), batch)


def test_sums_are_those_of_a_loop_over_the_counted_rows(params, batch):
    squares, sizes = 0.0, 0.0
    for inputs, target, weight in zip(batch['inputs'], batch['targets'], batch['weights']):
        if weight:
            prediction = float(jnp.bfloat16(float((inputs @ np.asarray(params['kernel'])).mean())))
            squares += (prediction - float(target)) ** 2
            sizes += abs(prediction - float(target))
    sums = SUMS(params, batch)
    np.testing.assert_allclose([sums.loss, sums.metrics['absolute_error']], [squares, sizes], rtol=1e-2)
    assert sums.loss.dtype == jnp.float32 and sums.weight == 3


def test_rows_of_weight_0_change_nothing_and_parts_add_up(params, batch):
    targets = np.where(batch['weights'] == 1, batch['targets'], 99).astype(np.float32)
    jax.tree.map(np.testing.assert_array_equal, SUMS(params, batch), SUMS(params, {**batch, 'targets': targets}))
    parts = [SUMS(params, jax.tree.map(lambda rows: rows[b:b + 1], batch)) for b in range(B)]
    added = jax.tree.map(lambda *each: np.sum(each), *parts)
    jax.tree.map(lambda whole, total: np.testing.assert_allclose(whole, total, rtol=1e-5), SUMS(params, batch), added)


def test_dropout_draws_from_the_key_and_only_in_training(params, batch):
    losses = [float(SUMS(params, batch, key).loss) for key in (None, None, jax.random.key(1), jax.random.key(2))]
    assert losses[0] == losses[1] and len(set(losses)) == 3


def test_the_summary_adds_the_root():
    assert Regression.summary(dict(loss=0.25, absolute_error=0.4)) == dict(loss=0.25, absolute_error=0.4,
                                                                           root_mean_squared_error=0.5)
    assert math.isnan(Regression.summary(dict(loss=math.nan))['root_mean_squared_error'])


def test_tasks_by_name_and_what_their_loss_is_measured_in():
    assert tasks.TASKS == dict(language_model=LanguageModel, regression=Regression)
    assert tasks.build('regression', Mean()) == TASK
    assert (LanguageModel.unit, Regression.unit) == ('nats per token', 'mean squared error')
    with pytest.raises(FieldError, match="^task='regresion': no such task; did you mean 'regression'"):
        tasks.build('regresion', Mean())
