"""Forecasting against a plain loop, and that it does not see what it predicts."""

import json

import jax
import numpy as np
import pytest

from seqjax import models, tasks, train
from seqjax.data.embedded import mackey_glass
from seqjax.errors import FieldError, UserError
from seqjax.modes.predict import predict_lines
from tests.tiny import tiny_config

B, T, D = 3, 5, 2
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(B, T + 1, D)).astype(np.float32)
BATCH = dict(inputs=VALUES[:, :-1], targets=VALUES[:, 1:], weights=np.array([[1] * 5, [1, 1, 0, 0, 0], [1] * 5], np.float32))


def task(**fields):
    return tasks.build('forecasting', models.build('reader', vocabulary=None, outputs=D, per_step=True, width=8, encoder='gru'), **fields)


def test_the_loss_is_the_mean_squared_error_beside_that_of_no_change():
    learned = task()
    params = learned.plain_init(jax.random.key(0), BATCH)
    outputs, sums = np.asarray(learned.predict(params, BATCH)['predictions']), learned(params, BATCH)
    loss = kept = weight = 0.0
    for b in range(B):
        for t in range(T):
            if BATCH['weights'][b, t]:
                loss += np.mean([(outputs[b, t, d] - VALUES[b, t + 1, d]) ** 2 for d in range(D)])
                kept += np.mean([(VALUES[b, t, d] - VALUES[b, t + 1, d]) ** 2 for d in range(D)])
                weight += 1
    np.testing.assert_allclose([sums.loss, sums.metrics['persistence'], sums.weight], [loss, kept, weight], rtol=1e-5)
    assert task(deviation=(2.0,)).numbers(sums)['root_mean_squared_error'] == pytest.approx(2 * (loss / weight) ** 0.5, rel=1e-5)
    assert 'root_mean_squared_error' not in task(deviation=(2.0, 3.0)).numbers(sums)


def test_nothing_is_predicted_from_what_comes_later():
    learned = task()
    params = learned.plain_init(jax.random.key(0), BATCH)
    other = {**BATCH, 'inputs': np.concatenate([BATCH['inputs'][:, :3], BATCH['inputs'][:, 3:] + 1], axis=1)}
    ours, theirs = (np.asarray(learned.predict(params, batch)['predictions']) for batch in (BATCH, other))
    np.testing.assert_array_equal(ours[:, :3], theirs[:, :3])
    assert np.abs(ours[:, 3:] - theirs[:, 3:]).min() > 0
    with pytest.raises(FieldError, match='model.bidirectional=True: reads the values that are to be predicted'):
        tasks.build('forecasting', models.build('reader', vocabulary=None, outputs=D, per_step=True, width=8, bidirectional=True))


def test_a_run_reports_its_error_beside_that_of_no_change_and_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(mackey_glass, 'VALUES', 800)
    config = lambda steps: tiny_config('reader', task='forecasting', data=dict(source='mackey_glass', sequence_length=16),
                                       model=dict(encoder='gru'), train=dict(steps=steps, eval_every=0, save_every=2),
                                       optimizer=dict(schedule='constant', learning_rate=1e-2))
    train.train(config(2), tmp_path)
    train.train(config(60), tmp_path)
    numbers = json.loads((tmp_path / 'result.json').read_text())
    assert 0 < numbers['eval/loss'] < 1 and 0 < numbers['eval/persistence'] < 0.2 and numbers['test/root_mean_squared_error'] > 0
    with pytest.raises(UserError, match='has not learned to label sequences'):
        list(predict_lines(config(60), tmp_path, ['1']))
