"""The language-model task against a plain loop over rows and steps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import models
from seqjax.tasks import LanguageModel, Sums

B, T, V = 3, 6, 11


class Compiled:
    """A task whose functions are compiled once: op by op they would take seconds."""

    def __init__(self, task):
        self.init, self.logits = jax.jit(task.plain_init), jax.jit(lambda p, x: task.model.apply({'params': p}, x))
        self.sums = jax.jit(task.__call__)

    def __call__(self, params, batch, key=None):
        return self.sums(params, batch, key)


@pytest.fixture(scope='module', params=['gpt', 'recurrent'])
def task(request):
    sizes = dict(width=8, depth=1, dropout=0.5, **({'heads': 2} if request.param == 'gpt' else {}))
    return Compiled(LanguageModel(models.build(request.param, vocabulary=V, context_length=T, **sizes)))


@pytest.fixture(scope='module')
def batch():
    rng = np.random.default_rng(0)
    lengths = np.array([T, 1, 4])
    return dict(inputs=rng.integers(V, size=(B, T)).astype(np.int32), targets=rng.integers(V, size=(B, T)).astype(np.int32),
                weights=(np.arange(T) < lengths[:, None]).astype(np.float32))


@pytest.fixture(scope='module')
def params(task, batch):
    # Large parameters, so that the model is sure of some predictions and right by chance.
    return jax.tree.map(lambda leaf: 5 * leaf, task.init(jax.random.key(0), batch))


def test_sums_are_those_of_a_loop_over_the_counted_targets(task, params, batch):
    logits = np.asarray(task.logits(params, batch['inputs']), np.float64)
    loss, correct = 0.0, 0
    for b in range(B):
        for t in range(T):
            if batch['weights'][b, t]:
                target = batch['targets'][b, t]
                loss -= logits[b, t, target] - math.log(np.exp(logits[b, t]).sum())
                correct += logits[b, t].argmax() == target
    sums = task(params, batch)
    np.testing.assert_allclose(sums.loss, loss, rtol=1e-5)
    assert sums.weight == batch['weights'].sum() == 11
    assert int(sums.metrics['accuracy']) == correct


def test_what_has_weight_0_changes_nothing(task, params, batch):
    targets = np.where(batch['weights'] == 1, batch['targets'], (batch['targets'] + 1) % V)
    assert (targets != batch['targets']).any()
    jax.tree.map(np.testing.assert_array_equal, task(params, batch), task(params, {**batch, 'targets': targets}))


def test_accuracy_counts_right_answers(task, params, batch):
    best = np.asarray(task.logits(params, batch['inputs']).argmax(-1), np.int32)
    assert task(params, {**batch, 'targets': best}).means()['accuracy'] == 1
    assert task(params, {**batch, 'targets': (best + 1) % V}).means()['accuracy'] == 0


def test_sums_of_parts_add_up_to_the_sums_of_the_whole(task, params, batch):
    parts = [task(params, jax.tree.map(lambda rows: rows[b:b + 1], batch)) for b in range(B)]
    added = jax.tree.map(lambda *each: np.sum(each), *parts)
    jax.tree.map(lambda whole, total: np.testing.assert_allclose(whole, total, rtol=1e-5), task(params, batch), added)


def test_dropout_draws_from_the_key_and_only_in_training(task, params, batch):
    def loss(key):
        return float(task(params, batch, key).loss)

    assert loss(None) == loss(None)
    assert loss(jax.random.key(1)) == loss(jax.random.key(1))
    assert len({loss(None), loss(jax.random.key(1)), loss(jax.random.key(2))}) == 3


def test_means_divide_once():
    means = Sums(loss=jnp.float32(6), weight=jnp.float32(4), metrics=dict(accuracy=jnp.float32(1))).means()
    assert {name: float(value) for name, value in means.items()} == dict(loss=1.5, accuracy=0.25)


@pytest.mark.parametrize('loss, perplexity, bits', [
    (0.0, 1.0, 0.0), (math.log(8), 8.0, 3.0), (1e6, math.exp(700), 1e6 / math.log(2))])
def test_the_summary_adds_perplexity_and_bits_and_never_overflows(loss, perplexity, bits):
    summary = LanguageModel.summary(dict(loss=loss, accuracy=0.5))
    assert summary == pytest.approx(dict(loss=loss, accuracy=0.5, perplexity=perplexity, bits_per_token=bits), rel=1e-12)


def test_a_loss_that_is_not_a_number_stays_visible():
    summary = LanguageModel.summary(dict(loss=math.nan))
    assert math.isnan(summary['perplexity']) and math.isnan(summary['bits_per_token'])
