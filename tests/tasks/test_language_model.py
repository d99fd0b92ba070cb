"""The language-model task against a plain loop over rows and steps."""

import dataclasses
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
        self.measured = lambda params, batch, sizes, key=None: jax.jit(
            dataclasses.replace(task, token_sizes=sizes).__call__)(params, batch, key)

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


def summary(loss, weight=4.0, **metrics):
    """Of an evaluation with these means."""
    metrics = {name: np.float64(weight * mean) for name, mean in metrics.items()}
    return LanguageModel(None).summary(Sums(loss=np.float64(weight * loss), weight=np.float64(weight), metrics=metrics))


@pytest.mark.parametrize('loss, perplexity, bits', [
    (0.0, 1.0, 0.0), (math.log(8), 8.0, 3.0), (1e6, math.exp(700), 1e6 / math.log(2))])
def test_the_summary_adds_perplexity_and_bits_and_never_overflows(loss, perplexity, bits):
    expected = dict(loss=loss, accuracy=0.5, perplexity=perplexity, bits_per_token=bits)
    found = summary(loss, accuracy=0.5)
    assert found == pytest.approx(expected, rel=1e-12) and {type(value) for value in found.values()} == {float}
    expected.update(bits_per_character=bits / 3, bits_per_byte=bits / 5)  # and the raw means are gone
    assert summary(loss, accuracy=0.5, characters=3.0, bytes=5.0) == pytest.approx(expected, rel=1e-12)


def test_a_loss_that_is_not_a_number_stays_visible():
    found = summary(math.nan, characters=1.0, bytes=1.0)
    assert all(math.isnan(value) for value in found.values())


def test_characters_and_bytes_are_those_of_the_counted_targets_and_only_in_evaluation(task, params, batch):
    sizes = np.random.default_rng(1).integers(0, 9, (V, 2))
    sums = task.measured(params, batch, sizes)
    expected = np.zeros(2)
    for target, weight in zip(batch['targets'].ravel(), batch['weights'].ravel()):
        expected += weight * sizes[target]
    assert [sums.metrics['characters'], sums.metrics['bytes']] == expected.tolist()
    training = task.measured(params, batch, sizes, jax.random.key(0))
    assert training.metrics.keys() == {'accuracy'} == task(params, batch).metrics.keys()
    one = task.measured(params, batch, np.ones((V, 2), int))  # as characters have it
    found = LanguageModel(None).summary(jax.device_get(one))
    assert found['bits_per_character'] == found['bits_per_byte'] == found['bits_per_token']


def test_a_packed_batch_gives_the_sums_of_its_texts(task, params, batch):
    texts = [dict(inputs=batch['inputs'][b, :n], targets=batch['targets'][b, :n]) for b, n in enumerate((T - 4, 3, 1))]
    row = {name: np.concatenate([text[name] for text in texts])[None] for name in texts[0]}
    ids = np.repeat([1, 2, 3], [T - 4, 3, 1])[None].astype(np.int32)
    whole = task(params, {**row, 'weights': np.ones((1, T), np.float32), 'segments': ids})
    parts = []
    for text in texts:
        filled = {name: np.pad(tokens, (0, T - len(tokens)))[None] for name, tokens in text.items()}
        parts.append(task(params, {**filled, 'weights': (np.arange(T) < len(text['inputs'])).astype(np.float32)[None]}))
    added = jax.tree.map(lambda *each: np.sum(each), *parts)
    jax.tree.map(lambda one, total: np.testing.assert_allclose(one, total, rtol=1e-5), whole, added)
