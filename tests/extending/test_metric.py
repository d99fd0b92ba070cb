"""A metric from outside (`calibration_metric`): evaluations that have its arguments report it, by launch.py and as an import."""

import importlib
import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from seqjax import metrics
from seqjax.errors import FieldError
from seqjax.models import build
from seqjax.tasks import Classification
from seqjax.train.decode_eval import Decoded

ROOT = pathlib.Path(__file__).parents[2]
FILE = pathlib.Path(__file__).with_name('calibration_metric.py')


@pytest.fixture
def registered(monkeypatch):
    """Metrics that are registered during a test are gone after it."""
    monkeypatch.setattr(metrics.METRICS, '_things', dict(metrics.METRICS))


def calibration(probabilities, targets):
    """ECE with ten bins, by a loop over bins and examples."""
    total = 0.0
    for m in range(10):
        inside = [b for b, row in enumerate(probabilities) if m / 10 <= max(row) < (m + 1) / 10 or m == 9 and max(row) == 1]
        if inside:
            right = sum(np.argmax(probabilities[b]) == targets[b] for b in inside)
            total += abs(right - sum(max(probabilities[b]) for b in inside)) / len(probabilities)
    return total


def test_a_task_reports_it_and_computes_what_it_asks_for_only_then(registered):
    model = build('reader', vocabulary=5, outputs=3, encoder='elman', width=4)
    task, rng = Classification(model, ('a', 'b', 'c')), np.random.default_rng(0)
    batch = dict(inputs=rng.integers(5, size=(40, 3)).astype(np.int32), lengths=np.full(40, 3, np.int32),
                 targets=rng.integers(3, size=40).astype(np.int32), weights=np.float32(np.arange(40) % 5 > 0))
    params = jax.tree.map(lambda x: 3 * x, task.plain_init(jax.random.key(0), batch))
    assert task(params, batch).rows == {}
    importlib.import_module('tests.extending.calibration_metric')
    sums = jax.device_get(jax.jit(task.__call__)(params, batch))
    found, counted = task.summary(sums), batch['weights'] > 0
    probabilities = np.asarray(task.predict(params, batch)['probabilities'])[counted]
    assert list(found) == ['loss', 'accuracy', 'macro_f1', 'calibration_error']
    assert found['calibration_error'] == pytest.approx(calibration(probabilities, batch['targets'][counted]), rel=1e-5)
    assert task(params, batch, jax.random.key(1)).rows == {}  # in training


def test_metrics_are_measured_where_all_their_arguments_are(registered):
    @metrics.register('spread')
    def spread(predictions, scale=1.0):
        return {'': scale * np.ptp(predictions), 'low': min(predictions)}

    assert metrics.measure(dict(predictions=np.array([1.0, 3.0]))) == {'spread': 2.0, 'spread/low': 1.0}
    assert metrics.measure(dict(predictions=np.array([1.0, 3.0]), scale=2.0))['spread'] == 4.0
    assert metrics.measure(dict(loss=1.0)) == {}
    with pytest.raises(FieldError, match="metric='spread': is registered already"):
        metrics.register('spread')(lambda loss: loss)


def test_translations_are_scored_by_it_too(registered, monkeypatch):
    class Pairs:
        rows = dict(validation=[dict(inputs=[1, 2, 3])] * 2)
        texts = lambda self, split: (['eins zwei', 'drei'], ['one two', 'three'])

    @metrics.register('words_apart')
    def words_apart(hypotheses, references):
        return sum(len(h.split()) != len(r.split()) for h, r in zip(hypotheses, references))

    monkeypatch.setattr(Decoded, 'texts', lambda *_: ['one one one', 'three'])
    decoded = Decoded(Pairs(), None, None, 2)
    written = decoded.measure(None, None, 'eval')
    assert written.numbers['eval/words_apart'] == 1 and written.numbers['eval/exact_match'] == 0.5
    assert 'words_apart' in decoded.measured


def test_launched_as_an_experiment_evaluations_report_it(tmp_path):
    launch = lambda *words: subprocess.run(
        [sys.executable, 'launch.py', f'--config={FILE}', f'--workdir={tmp_path}', *words], cwd=ROOT, check=True,
        capture_output=True, text=True).stdout
    launch()
    result = json.loads((tmp_path / 'result.json').read_text())
    assert 0 < result['eval/calibration_error'] < 1 and 0 < result['test/calibration_error'] < 1
    assert (result['best_metric'], result['steps']) == ('eval/calibration_error', 2)
    assert not any('majority' in name or 'bayes' in name for name in result)  # config.train.baselines=False
    found = launch('--mode=eval')
    assert json.loads(found[found.index('{'):found.rindex('}') + 1])['eval/calibration_error'] == pytest.approx(
        result['eval/calibration_error'])
