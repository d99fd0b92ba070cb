"""Translation against plain loops over the counted targets; smoothed targets, of every task that has them."""

import dataclasses
import math

from flax import linen
import jax
import numpy as np
import pytest

from seqjax import models, tasks
from seqjax.tasks import Classification, LanguageModel, Sums, Translation
from tests.reference.parameters import random_parameters

B, S, T, V, W = 4, 5, 4, 9, 7
STEPS = np.array([4, 1, 3, 0])  # of the targets; the last row fills up
MODEL = models.build('seq2seq', vocabulary=V, target_vocabulary=W, width=4, context='mapped', dropout=0.5)
TASK = Translation(MODEL)


def draw(seed=0):
    rng = np.random.default_rng(seed)
    return dict(inputs=rng.integers(1, V, (B, S)).astype(np.int32), lengths=np.array([5, 2, 4, 0], np.int32),
                targets=rng.integers(1, W, (B, T)).astype(np.int32),
                weights=(np.arange(T) < STEPS[:, None]).astype(np.float32))


BATCH = draw()
PARAMS = random_parameters(MODEL, BATCH['inputs'], BATCH['lengths'], BATCH['targets'], scale=1.5)
SUMS, LOGITS = jax.jit(TASK.__call__), jax.jit(TASK.logits)


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def test_sums_are_those_of_a_loop_over_the_counted_targets():
    log_probs = log_softmax(np.float64(LOGITS(PARAMS, BATCH)))
    loss, right = 0.0, 0
    for b in range(B):
        for t in range(STEPS[b]):
            loss -= log_probs[b, t, BATCH['targets'][b, t]]
            right += log_probs[b, t].argmax() == BATCH['targets'][b, t]
    sums = jax.device_get(SUMS(PARAMS, BATCH))
    assert log_probs.shape == (B, T, W) and sums.weight == 8 and 0 < sums.metrics['accuracy'] == right
    np.testing.assert_allclose(sums.loss, loss, rtol=1e-5)
    summary = TASK.summary(sums)
    assert summary == pytest.approx(dict(loss=loss / 8, accuracy=right / 8, perplexity=math.exp(loss / 8)), rel=1e-5)
    assert {type(value) for value in summary.values()} == {float}


def test_perplexity_never_overflows():
    sums = Sums(np.float64(1e6), np.float64(1), {})
    assert TASK.summary(sums)['perplexity'] == math.exp(700)


def test_sums_of_rows_add_up_to_the_sums_of_the_batch():
    parts = [SUMS(PARAMS, jax.tree.map(lambda rows: rows[b:b + 1], BATCH)) for b in range(B)]
    added = jax.tree.map(lambda *each: np.sum(each), *parts)
    jax.tree.map(lambda whole, total: np.testing.assert_allclose(whole, total, rtol=1e-5), SUMS(PARAMS, BATCH), added)


def test_dropout_draws_from_the_key_and_only_in_training():
    losses = [float(SUMS(PARAMS, BATCH, key).loss) for key in (None, None, *map(jax.random.key, (1, 1, 2)))]
    assert losses[0] == losses[1] and losses[2] == losses[3] and len(set(losses)) == 3


# ------------------------------------------------------------------------------------------------ smoothed targets

class Table(linen.Module):
    """A row of a table for every token, or the sum of a row's."""

    whole: bool

    @linen.compact
    def __call__(self, inputs, *_, train=False, **__):
        rows = self.param('table', linen.initializers.normal(2.0), (V, W))[inputs]
        return rows.sum(axis=1) if self.whole else rows


@pytest.mark.parametrize('task, steps', [(Translation, True), (LanguageModel, True), (Classification, False)],
                         ids=lambda value: getattr(value, '__name__', ''))
def test_targets_are_smoothed_in_training_and_nowhere_else(task, steps):
    share, model = 0.3, Table(whole=not steps)
    batch = {**BATCH, 'inputs': BATCH['inputs'][:, :T]}
    if not steps:
        batch.update(targets=batch['targets'][:, 0], weights=(STEPS > 0).astype(np.float32))
    params = random_parameters(model, batch['inputs'], scale=2.0)

    @jax.jit
    def run(params, batch, key):
        smoothed, plain = task(model, label_smoothing=share), task(model)
        calls = smoothed(params, batch, key), smoothed(params, batch), plain(params, batch), plain(params, batch, key)
        return model.apply({'params': params}, batch['inputs']), [sums.loss for sums in calls]

    logits, (trained, *others) = jax.device_get(run(params, batch, jax.random.key(1)))
    log_probs = log_softmax(np.float64(logits))
    of_target = np.take_along_axis(log_probs, batch['targets'][..., None], axis=-1)[..., 0]
    formula = -((1 - share) * of_target + share * log_probs.mean(axis=-1))
    np.testing.assert_allclose(trained, (formula * batch['weights']).sum(), rtol=1e-5)
    np.testing.assert_allclose(others, [-(of_target * batch['weights']).sum()] * 3, rtol=1e-5)


def test_it_is_built_by_name_with_what_the_config_says():
    built = tasks.build('translation', MODEL, label_smoothing=0.1, teacher=tasks.Teacher('linear'), classes=('ash',))
    assert built == dataclasses.replace(TASK, label_smoothing=0.1, teacher=tasks.Teacher('linear'))
    assert built.unit == 'nats per token' and built.at(3).step == 3 and LanguageModel(MODEL).at(3) == LanguageModel(MODEL)
