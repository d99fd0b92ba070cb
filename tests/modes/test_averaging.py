"""The mean of the last checkpoints: the numbers are numpy's, and the directory that holds it is a run like any other."""

import json
import os
import shutil
import types

import jax
import numpy as np
import pytest

from seqjax.errors import UserError
from seqjax.modes.average import average_checkpoints
from seqjax.modes.eval import evaluate
from seqjax.modes.predict import predict_lines
from seqjax.runs import Checkpoints, RunDirectory, runs_below
from seqjax.train import build
from tests.labelled_files import LETTERS, labelled_config, write_labelled
from tests.runs.test_checkpoints import save
from tests.test_launch import launch, run_here  # noqa: F401 (a fixture)
from tests.tiny import tiny_config

CONFIG = tiny_config(train=dict(keep_latest=4))


@pytest.fixture(scope='module')
def four_saved(tmp_path_factory):
    """A run that was never trained, with checkpoints of steps 1 to 4: see `some_state` of the tests of checkpoints."""
    run = RunDirectory(tmp_path_factory.mktemp('four') / 'run')
    run.claim(CONFIG, types.SimpleNamespace(files=lambda: {'codec.json': '{"é": 1}'}, facts=lambda: dict(source='x')))
    for step in (1, 2, 3, 4):
        save(Checkpoints(run.checkpoints, keep_latest=4), step)
    return run


@pytest.fixture
def run(four_saved, tmp_path):
    return RunDirectory(shutil.copytree(four_saved.path, tmp_path / 'run'))


def arrays_of(directory, step):
    """Every array of a checkpoint by its path, as it was saved."""
    checkpoints, place = Checkpoints(directory / 'checkpoints'), jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = {path: jax.ShapeDtypeStruct(tuple(x['shape']), x['dtype'], sharding=place)
              for path, x in checkpoints.manifest(step)['arrays'].items()}
    return jax.device_get(checkpoints.restore(step, target))


def assert_is_mean(path, directory, steps, prefixes):
    """The arrays at `prefixes` are the means to the bit, and all others those of the last step."""
    each, found = [arrays_of(directory, step) for step in steps], arrays_of(path, steps[-1])
    assert found.keys() == each[-1].keys()
    for name, x in found.items():
        expected = each[-1][name]
        if name.startswith(prefixes):
            expected = np.mean(np.stack([arrays[name] for arrays in each]), axis=0, dtype=np.float64).astype(x.dtype)
            assert expected.tobytes() != each[-1][name].tobytes()
        assert x.dtype == expected.dtype and x.tobytes() == expected.tobytes(), name


def contents(path):
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in path.rglob('*') if file.is_file()}


@pytest.mark.parametrize('last', [2, 3, 4])
def test_parameters_are_the_mean_of_the_last_and_the_rest_is_that_of_the_newest(run, last):
    path, steps = average_checkpoints(CONFIG, run.path, last)
    assert path == run.path / f'average_of_{last}' and steps == [1, 2, 3, 4][-last:]
    assert_is_mean(path, run.path, steps, 'params/')
    manifest = Checkpoints(path / 'checkpoints').manifest(4)
    assert manifest['score'] is None and manifest['seconds'] == 1.5 and manifest['config'] == {'seed': 0}


def test_it_has_the_files_of_the_run_and_says_what_it_is_the_mean_of(run):
    path, _ = average_checkpoints(CONFIG, run.path, 2)
    assert sorted(os.listdir(path)) == ['average.json', 'checkpoints', 'codec.json', 'config.json', 'data.json']
    for name in ('config.json', 'data.json', 'codec.json'):
        assert (path / name).read_bytes() == (run.path / name).read_bytes()
    assert list(json.loads((path / 'average.json').read_text())) == ['3', '4']
    assert sorted(os.listdir(path / 'checkpoints')) == ['00000004'] and not list(run.path.glob('.*'))


def test_it_is_no_variant_of_a_sweep(run):
    average_checkpoints(CONFIG, run.path, 2)
    assert runs_below(run.path.parent) == ['run'] and runs_below(run.path) == [] == runs_below(run.path / 'average_of_2')


def test_the_same_mean_is_not_taken_again_and_another_is_refused(run):
    path, _ = average_checkpoints(CONFIG, run.path, 2)
    before = contents(path)
    assert average_checkpoints(CONFIG, run.path, 2) == (path, [3, 4])
    assert contents(path) == before
    save(Checkpoints(run.checkpoints, keep_latest=4), 5)
    with pytest.raises(UserError) as caught:
        average_checkpoints(CONFIG, run.path, 2)
    assert str(caught.value) == f'{path}: holds the mean of checkpoints 3, 4 and not that of 4, 5; remove it or move it away'
    assert contents(path) == before and not list(run.path.glob('.*'))


def test_something_else_of_that_name_is_left_alone(run):
    (run.path / 'average_of_2').mkdir()
    with pytest.raises(UserError, match='average_of_2: holds something else and not that of 3, 4; remove it or move it'):
        average_checkpoints(CONFIG, run.path, 2)


def test_what_a_killed_process_left_is_in_nobodys_way(run):
    left = run.path / '.average_of_2.writing'
    (left / 'checkpoints').mkdir(parents=True)
    (left / 'config.json').write_text('{')
    path, steps = average_checkpoints(CONFIG, run.path, 2)
    assert_is_mean(path, run.path, steps, 'params/')
    assert not left.exists()


def test_a_damaged_checkpoint_is_passed_over_and_reported(run, capsys):
    os.truncate(run.checkpoints / '00000003' / 'arrays' / '_METADATA', 5)
    path, steps = average_checkpoints(CONFIG, run.path, 3)
    assert steps == [1, 2, 4]
    assert_is_mean(path, run.path, steps, 'params/')
    output, errors = capsys.readouterr()
    assert output == '' and 'checkpoint 3 is damaged' in errors and (run.checkpoints / 'damaged-00000003').is_dir()


@pytest.mark.parametrize('last, sentence', [
    (5, '--last=5: {checkpoints} has 4 such checkpoint(s), and training keeps the latest config.train.keep_latest=4; ask for '
        'fewer, or train with more to keep'),
    (1, '--last=1: a mean is that of at least 2 checkpoints'),
    (-3, '--last=-3: a mean is that of at least 2 checkpoints')])
def test_a_number_that_cannot_be_is_refused(run, last, sentence):
    with pytest.raises(UserError) as caught:
        average_checkpoints(CONFIG, run.path, last)
    assert str(caught.value) == sentence.format(checkpoints=run.checkpoints)
    assert not list(run.path.glob('*average*'))


@pytest.mark.parametrize('last, damaged, left', [(3, False, 2), (2, True, 1)])
def test_one_that_was_kept_for_its_score_is_not_one_of_the_last(run, last, damaged, left):
    shutil.rmtree(run.checkpoints / '00000002')
    if damaged:
        os.truncate(run.checkpoints / '00000003' / 'arrays' / '_METADATA', 5)
    with pytest.raises(UserError) as caught:
        average_checkpoints(tiny_config(train=dict(keep_latest=2)), run.path, last)
    assert str(caught.value) == (f'--last={last}: {run.checkpoints} has {left} such checkpoint(s), and training keeps the '
                                 'latest config.train.keep_latest=2; ask for fewer, or train with more to keep')
    assert not list(run.path.glob('*average*'))


def test_several_processes_are_refused(run, monkeypatch):
    monkeypatch.setattr(jax, 'process_count', lambda: 2)
    with pytest.raises(UserError, match='--mode=average: is done by one process and not by 2; leave out --coordinator'):
        average_checkpoints(CONFIG, run.path, 2)


# ------------------------------------------------------------------------------------------------ the other modes

def test_evaluation_and_prediction_use_the_mean_of_the_running_averages(tmp_path):
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification', 'conv',
                             train=dict(eval_batches=1), optimizer=dict(ema_decay=0.5))
    run, rng = RunDirectory(tmp_path / 'run'), np.random.default_rng(0)
    parts = build(config, run)
    run.claim(config, parts.dataset)
    draw = lambda x: jax.device_put(np.asarray(3 * rng.normal(size=x.shape), x.dtype), x.sharding)
    for step in (5, 10):
        Checkpoints(run.checkpoints).save(jax.tree.map(draw, parts.target), step=step, config=config.to_dict())
    path, steps = average_checkpoints(config, run.path, 2)
    assert steps == [5, 10]
    assert_is_mean(path, run.path, steps, ('params/', 'ema/'))

    target, task, losses = jax.tree.structure(parts.target.params), jax.jit(parts.task), {}
    for which in ('params/', 'ema/'):
        arrays = [x for name, x in arrays_of(path, 10).items() if name.startswith(which)]
        losses[which] = float(task(jax.tree.unflatten(target, arrays), parts.evaluation[0]).means()['loss'])
    config = RunDirectory(path).saved_config()
    found = evaluate(config, path, 'best')
    assert found['step'] == 10 and found['eval/loss'] == pytest.approx(losses['ema/'], rel=1e-5)
    assert losses['params/'] != pytest.approx(losses['ema/'], rel=1e-2)
    answers = list(predict_lines(config, path, ['abcd', 'hgfe']))
    assert [set(answer['probabilities']) for answer in answers] == [set(LETTERS)] * 2


# ------------------------------------------------------------------------------------------------ the command line

def test_the_launcher_prints_what_was_averaged_and_where_it_is(run, launch, monkeypatch):  # noqa: F811
    code, output, _ = run_here(launch, [f'--workdir={run.path}', '--mode=average', '--last=3'], monkeypatch)
    assert code == 0
    assert output == f'the mean of checkpoints 2, 3, 4: {run.path / "average_of_3"} (a --workdir for the other modes)\n'


@pytest.mark.parametrize('words, sentence', [
    ('--mode=average', '--mode=average: give --last=N, the number of checkpoints to take the mean of'),
    ('--mode=eval --last=2', '--last=2: is for --mode=average; leave it out'),
    ('--last=2', '--last=2: is for --mode=average; leave it out'),
    ('--mode=average --last=2 --checkpoint=best', '--checkpoint=best: is for --mode=eval|generate|predict|score|xray|cells|probe|zero_shot|embed|export|hugging_face; leave it out'),
    ('--mode=average --last=two', '--last=two: must be a whole number'),
    ('--mode=average --last=1', '--last=1: a mean is that of at least 2 checkpoints'),
    ('--mode=average --last=2 --config.model.depth=2', 'holds another experiment, with config.model.depth=1 and not 2'),
])
def test_a_command_that_cannot_be_is_one_sentence(words, sentence, run, launch, monkeypatch):  # noqa: F811
    before = contents(run.path)
    code, output, errors = run_here(launch, [f'--workdir={run.path}', *words.split(' ')], monkeypatch)
    assert (code, output) == (2, '') and sentence in errors and 'Traceback' not in errors
    assert contents(run.path) == before
