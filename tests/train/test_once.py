"""What a run does once: it is validated, its model is built, its optimizer is made; nothing is lost at its end."""

import json

import pytest

from seqjax import config as configs
from seqjax import models, train
from seqjax.params import low_rank
from seqjax.runs import Checkpoints, RunDirectory
from seqjax.train import evaluation, experiment
from tests.labelled_files import labelled_config, write_labelled
from tests.tiny import tiny_config, write_text


@pytest.fixture
def config(tmp_path):
    return tiny_config('gpt', data=dict(source=f'file:{write_text(tmp_path / "text.txt")}'), parallel=dict(data=1))


def test_a_run_is_validated_and_built_once(config, tmp_path, monkeypatch):
    counts = {}

    def counted(place, name):
        real = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *a, **k: counts.update({name: counts.get(name, 0) + 1}) or real(*a, **k))

    counted(configs, 'validate')
    counted(models, 'build')
    counted(experiment, 'make_optimizer')
    counted(experiment, 'load_data')
    counted(low_rank, 'find_projections')  # LoRA is off
    train.train(config, tmp_path / 'run')
    assert counts == dict(validate=1, build=1, make_optimizer=1, load_data=1)


def test_an_experiment_that_is_prepared_is_trained_as_its_config_is(config, tmp_path):
    prepared = train.prepare(config, tmp_path / 'prepared')
    assert not (tmp_path / 'prepared').exists()  # nothing is written before training begins
    losses = [train.train(prepared)['train/loss'], train.train(config, tmp_path / 'run')['train/loss']]
    assert losses[0] == losses[1]


def test_the_last_checkpoint_is_saved_before_the_test_split_is_measured(tmp_path, monkeypatch):
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification')
    real, seen = evaluation.evaluate_state, []

    def crash_on_test(strategy, step, state, batches, **options):
        seen.append(batches)
        if len(seen) == 2:
            raise MemoryError('in the test split')
        return real(strategy, step, state, batches, **options)

    monkeypatch.setattr(evaluation, 'evaluate_state', crash_on_test)
    with pytest.raises(MemoryError):
        train.train(config, tmp_path / 'run')
    checkpoints = Checkpoints(tmp_path / 'run' / 'checkpoints')
    assert checkpoints.newest_intact() == config.train.steps
    monkeypatch.setattr(evaluation, 'evaluate_state', real)
    resumed, whole = train.train(config, tmp_path / 'run'), train.train(config, tmp_path / 'whole')
    numbers = lambda result: {name: value for name, value in result.items() if name.partition('/')[0] in ('eval', 'test')}
    assert numbers(resumed) == numbers(whole) and resumed['best_checkpoint'] == whole['best_checkpoint'] == config.train.steps


def test_other_steps_say_that_the_learning_rate_is_another(config, tmp_path, capsys):
    train.train(config, tmp_path / 'run')
    config.train.steps = 8
    train.train(config, tmp_path / 'run')
    said = capsys.readouterr().err
    assert 'note: config.train.steps=8 and no longer 4 changes the learning rate of the cosine schedule: here from ' in said
    schedule = lambda steps: train.make_schedule('cosine', config.optimizer.learning_rate, steps=steps, warmup_steps=0,
                                                 final_rate=0.1)
    assert f'from {float(schedule(4)(4)):.3g} to {float(schedule(8)(4)):.3g}' in said
    lines = [json.loads(line) for line in RunDirectory(tmp_path / 'run').metrics.read_text().splitlines()]
    assert [line['step'] for line in lines if 'train/loss' in line] == list(range(1, 9))


def test_the_result_names_the_checkpoint_that_best_stands_for(config, tmp_path):
    """Also by a metric that nothing stops early by."""
    config.train.update(steps=6, eval_every=2, save_every=3, stop_metric='eval/accuracy', keep_latest=1)
    result, checkpoints = train.train(config, tmp_path / 'run'), Checkpoints(tmp_path / 'run' / 'checkpoints')
    assert result['steps'] == 6 and result['best_metric'] == checkpoints.manifest(6)['metric'] == 'eval/accuracy'
    assert result['best_checkpoint'] == checkpoints.best_step()
