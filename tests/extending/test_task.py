"""A task from outside (`contrastive_task`): its loss over pairs is that of the whole global batch on every mesh, and it is launched."""

import dataclasses
import importlib
import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import fields, tasks, train
from seqjax.errors import FieldError, UserError
from seqjax.modes.predict import predict_lines
from seqjax.runs import RunDirectory

ROOT = pathlib.Path(__file__).parents[2]
FILE = pathlib.Path(__file__).with_name('contrastive_task.py')
CUTS = {'accumulate=4': dict(data=1, accumulate=4), 'jit data=8': dict(data=8), 'jit fsdp=8': dict(data=1, fsdp=8),
        'pmap data=8': dict(data=8, strategy='pmap'), 'jit data=4, accumulate=4': dict(data=4, accumulate=4),
        'pmap data=4, accumulate=4': dict(data=4, strategy='pmap', accumulate=4)}


@pytest.fixture(scope='module')
def module():
    """The file, whose task is registered while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks.TASKS, '_things', dict(tasks.TASKS))
        yield importlib.import_module('tests.extending.contrastive_task')


def measured(module, directory, *, accumulate=1, **mesh):
    """(parts, batch, parameters, loss of a training step, its gradient, loss of the evaluation of the same batch)."""
    config = module.get_config()
    config.parallel.update(mesh)
    config.data.train_examples = 100
    config.train.gradient_accumulation_steps = accumulate
    config.optimizer.update(name='sgd', schedule='constant', learning_rate=1.0, warmup_steps=0, clip_norm=0.0, weight_decay=0.0)
    parts = train.build(config, RunDirectory(directory))
    strategy, state, batch = parts.strategy, parts.initial_state(config), parts.training[0]
    before, state, placed = jax.device_get(state.params), strategy.enter(state), strategy.place(batch)
    evaluated = strategy.read(parts.eval_step()(state, placed)[1])
    state, facts = parts.train_step(config)(state, placed)
    gradient = jax.tree.map(np.subtract, before, jax.device_get(strategy.leave(state).params))
    return parts, batch, before, strategy.read(facts)['sums'].means()['loss'], gradient, evaluated.means()['loss']


@pytest.fixture(scope='module')
def alone(module, tmp_path_factory):
    return measured(module, tmp_path_factory.mktemp('alone'), data=1)


def test_value_and_gradient_are_those_of_a_plain_loop(alone):
    parts, batch, params, loss, gradient, evaluated = alone
    outputs, back = jax.vjp(lambda params: parts.task.represent(params, batch), params)
    u, v = (np.float64(outputs[name]) for name in ('first', 'second'))
    scale, B = np.exp(np.float64(params['log_scale'])), len(u)
    total, slopes = 0.0, np.zeros((B, B))
    for b in range(B):
        forth, back_again = (np.exp([scale * (one[b] @ other[c]) for c in range(B)]) for one, other in ((u, v), (v, u)))
        total -= (np.log(forth[b] / forth.sum()) + np.log(back_again[b] / back_again.sum())) / 2
        for c in range(B):
            slopes[b, c] += (forth[c] / forth.sum() - (b == c)) / 2 / B
            slopes[c, b] += (back_again[c] / back_again.sum() - (b == c)) / 2 / B
    expected, = back(dict(first=np.float32(scale * slopes @ v), second=np.float32(scale * slopes.T @ u)))
    expected['log_scale'] = scale * (slopes * (u @ v.T)).sum()
    for found in (loss, evaluated):
        np.testing.assert_allclose(found, total / B, rtol=1e-5)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5), gradient, expected)
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient)) > 0.01


@pytest.mark.parametrize('cut', CUTS)
def test_one_device_eight_devices_and_micro_batches_agree(cut, alone, module, tmp_path):
    _, batch, params, *expected = alone
    _, their_batch, their_params, *found = measured(module, tmp_path, **CUTS[cut])
    jax.tree.map(np.testing.assert_array_equal, (batch, params), (their_batch, their_params))
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=0, atol=1e-5), found, expected)


def test_a_set_that_it_cannot_be_learned_from_is_refused(module):
    config = module.get_config()
    config.data.source = 'reverse'
    with pytest.raises(FieldError, match="^config.task='halves': the set 'reverse' is for: translation; embedded sets for halves: "
                                         'cldr, reviews, python_docs, digits, moving_digits, moving_digit_videos$'):
        configs.validate(config)


def test_fields_of_the_config_are_those_of_the_task(module):
    config = module.get_config()
    assert config.train.scale == 5.0 and 'label_smoothing' not in config.train
    assert 'scale' not in configs.defaults('gpt').train
    config.train.scale = 0.0
    with pytest.raises(FieldError, match='^config.train.scale=0.0: must be a positive number$'):
        configs.validate(config)
    sentence = configs.why_unknown('train.scale', configs.defaults('gpt'))
    assert sentence == "config.train.scale: is for halves; this run is for language_model on 'python'; leave it out"

    @dataclasses.dataclass(frozen=True)
    class Steps:
        steps: int = fields.field(3, 'Its own steps.')

    tasks.register('of_steps')(type('OfSteps', (module.Halves,), dict(options=Steps)))
    with pytest.raises(FieldError, match='^steps=3: is a field of TrainOptions; call that of of_steps otherwise$'):
        configs.validate(config)
    del tasks.TASKS._things['of_steps']


def test_launched_as_an_experiment_it_trains_and_is_evaluated(module, tmp_path):
    def launch(*words):
        command = [sys.executable, 'launch.py', f'--config={FILE}', f'--workdir={tmp_path}', *words]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    launch('--config.train.scale=3')
    result = json.loads((tmp_path / 'result.json').read_text())
    assert json.loads((tmp_path / 'config.json').read_text())['train']['scale'] == 3
    assert result['steps'] == 6 and np.isfinite(result['test/loss']) and 'eval/majority_accuracy' not in result
    assert json.loads(launch('--config.train.scale=3', '--mode=eval'))['eval/loss'] == result['eval/loss']
    config = configs.loads((tmp_path / 'config.json').read_text())
    with pytest.raises(UserError, match="^--mode=predict: 'halves' predicts nothing about single sequences; use --mode=eval$"):
        next(predict_lines(config, tmp_path, ['a line']))
