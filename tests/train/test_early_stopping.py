"""Training ends early when its evaluations no longer improve, and where it ends is a function of the log."""

import json
import math
import random
import shutil

import jax.numpy as jnp
import pytest

from seqjax import config as configs
from seqjax import train
from seqjax.errors import FieldError
from seqjax.metrics.direction import lower_is_better
from seqjax.runs import find_checkpoint
from seqjax.runs import Checkpoints, RunDirectory, read_metrics
from seqjax.train import Patience, build, evaluation, stopping, sweeps
from seqjax.train.interrupts import Interrupts
from seqjax.train.recorder import Recorder
from tests.labelled_files import labelled_config, write_labelled
from tests.tiny import tiny_config

TIMES = ('seconds', 'tokens_per_second', 'flops_per_second', 'utilisation')  # of result.json: all that may differ
NAN, INF = math.nan, math.inf


def options(metric='eval/loss', patience=2, steps=1000):
    return tiny_config(train=dict(stop_metric=metric, patience=patience, eval_every=1, steps=steps)).train


# ------------------------------------------------------------------------------------------------ the rule

def where_it_ends(values, patience, higher):
    """Step by step, with a counter: the number of the evaluation that ends the run, and the best value."""
    best, without = None, 0
    for number, value in enumerate(values, 1):
        if math.isfinite(value) and (best is None or (value > best if higher else value < best)):
            best, without = value, 0
        else:
            without += 1
        if without == patience:
            return number, best
    return None, best


@pytest.mark.parametrize('metric', ['eval/loss', 'eval/accuracy'])
def test_a_run_ends_after_so_many_evaluations_without_improvement_and_a_resumed_one_at_the_same(metric):
    rng, ended = random.Random(0), 0
    for _ in range(300):
        patience = rng.randint(1, 4)
        values = [rng.choice([rng.randint(0, 5) / 4, rng.random(), NAN, INF]) for _ in range(rng.randint(1, 12))]
        end, best = where_it_ends(values, patience, higher=metric == 'eval/accuracy')
        rule = options(metric, patience)
        undisturbed, log = Patience(rule), []
        for number, value in enumerate(values, 1):
            step = 10 * number
            last = undisturbed.is_last(step, {metric: value})
            log.append(json.loads(json.dumps({'step': step, metric: value if math.isfinite(value) else None})))
            resumed = Patience(rule, [{'step': 1, 'train/loss': 3.0}, *log])
            assert last == resumed.is_last(step) == (number == end)
            assert not resumed.is_last(step + 1)  # only an evaluation ends a run
            if last:
                break
        assert undisturbed.best()[1] == resumed.best()[1] == best
        ended += end is not None
    assert 100 < ended < 290


def test_the_last_step_is_the_last_whatever_the_evaluations_say():
    assert Patience(options(steps=5)).is_last(5) and Patience(options(steps=5)).is_last(6)
    assert not Patience(options(steps=5)).is_last(4)


def test_without_a_metric_only_the_last_step_ends_a_run():
    patience = Patience(tiny_config(train=dict(steps=100)).train)
    assert patience.metric == 'eval/loss'
    assert not any(patience.is_last(step, {'eval/loss': float(step)}) for step in range(1, 100))
    assert patience.best() == (1, 1.0) and patience.value(7) == 7.0 and patience.value(101) is None


def test_an_evaluation_that_is_made_again_counts_once():
    patience = Patience(options(patience=2), [{'step': 1, 'eval/loss': 1.0}, {'step': 2, 'eval/loss': 1.0}])
    assert not patience.is_last(2, {'eval/loss': 1.0}) and patience.is_last(3, {'eval/loss': 1.0})


def test_the_best_is_the_newest_of_equals_and_never_what_is_not_finite():
    values = {10: NAN, 20: 0.5, 30: 0.5, 40: INF}
    patience = Patience(options('eval/bleu', patience=9))
    assert patience.best() == (None, None) and patience.describe() == 'eval/bleu was never finite'
    for step, value in values.items():
        patience.is_last(step, {'eval/bleu': value})
    assert patience.best() == (30, 0.5) and patience.value(10) is None
    assert patience.describe() == 'eval/bleu was best at step 30, 0.5000'


@pytest.mark.parametrize('metric, lower', [
    ('eval/loss', True), ('eval/perplexity', True), ('eval/bits_per_byte', True), ('eval/absolute_error', True),
    ('eval/root_mean_squared_error', True), ('eval/accuracy', False), ('eval/bleu', False), ('eval/exact_match', False),
    ('eval/spearman', False), ('eval/macro_f1', False), ('eval/f1/loss', False), ('eval/f1/error', False)])
def test_which_direction_is_better_is_known_by_name(metric, lower):
    assert lower_is_better(metric) == lower


def test_a_metric_that_an_evaluation_did_not_find_is_refused():
    with pytest.raises(FieldError) as caught:
        Patience(options('eval/bleu')).is_last(5, {'eval/loss': 1.0, 'eval/accuracy': 0.5})
    assert str(caught.value) == ("config.train.stop_metric='eval/bleu': is not measured in this run; there are: eval/loss, "
                                 'eval/accuracy')


# ------------------------------------------------------------------------------------------------ the config

@pytest.mark.parametrize('fields, sentence', [
    (dict(patience=3),
     "config.train.patience=3: is for early stopping by a metric; set config.train.stop_metric too, as to 'eval/loss'"),
    (dict(stop_metric='test/loss', patience=3),
     "config.train.stop_metric='test/loss': must be of the validation split, as 'eval/loss' is: what evaluations write to "
     'metrics.jsonl'),
    (dict(stop_metric='eval/loss', patience=3, eval_every=0),
     'config.train.eval_every=0: eval/loss is then measured only at the end, and cannot stop training or choose a '
     'checkpoint; set it to a number of steps'),
])
def test_an_impossible_rule_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        configs.validate(tiny_config(train={**dict(eval_every=1), **fields}))
    assert str(caught.value) == sentence


def test_a_run_may_go_on_with_another_rule():
    other = tiny_config(train=dict(stop_metric='eval/loss', patience=7, eval_every=1))
    configs.validate(other)
    assert configs.differences(tiny_config(), other) == []


# ------------------------------------------------------------------------------------------------ the best checkpoint

def saved(directory, rows, **keep):
    """Checkpoints of the (metric, score) in `rows`, at steps 1, 2, ..."""
    checkpoints = Checkpoints(directory, **keep)
    for step, (metric, score) in enumerate(rows, 1):
        checkpoints.save({'params': jnp.float32(step)}, step=step, config={}, score=score, metric=metric)
    return checkpoints


@pytest.mark.parametrize('metric, best', [('eval/loss', 2), ('eval/bleu', 3)])
def test_the_best_checkpoint_is_the_one_with_the_best_score_in_the_direction_of_its_metric(metric, best, tmp_path):
    checkpoints = saved(tmp_path, [(metric, score) for score in (2.0, 1.0, 4.0, None, 3.0)], keep_latest=1, keep_best=1)
    assert checkpoints.best_step() == best and checkpoints.steps() == [best, 5]


def test_scores_of_another_metric_are_not_compared(tmp_path):
    rows = [('eval/loss', 99.0), ('eval/bleu', 20.0), ('eval/bleu', 30.0), ('eval/bleu', 25.0), ('eval/bleu', None)]
    checkpoints = saved(tmp_path, rows, keep_latest=9)
    assert checkpoints.best_step() == 3
    path = checkpoints.path(1) / 'manifest.json'
    path.write_text(path.read_text().replace(' "metric": "eval/loss",\n', ''))  # as it was before there was a choice
    assert 'metric' not in checkpoints.manifest(1) and checkpoints.best_step() == 3
    for step in (2, 3, 4, 5):
        shutil.rmtree(checkpoints.path(step))
    assert checkpoints.best_step() == 1


# ------------------------------------------------------------------------------------------------ whole runs

def constant_config(path, **fields):
    """A run whose parameters stand still: all its evaluations are the same, so the third one in a row ends it."""
    fields = dict(steps=9, eval_every=1, save_every=2, eval_batches=0, stop_metric='eval/accuracy', patience=2) | fields
    return labelled_config(path, 'classification', 'conv', train=fields, optimizer=dict(learning_rate=1e-30))


@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    """(file, workdir, result) of a run that ended early, at step 3."""
    directory = tmp_path_factory.mktemp('early')
    path = write_labelled(directory / 'trees.jsonl', 'classification')
    return path, directory / 'run', train.train(constant_config(path), directory / 'run')


def without_times(result):
    return {name: value for name, value in result.items() if name not in TIMES}


def test_the_end_is_that_of_any_run(ended):
    _, workdir, result = ended
    lines = [line for line in read_metrics(workdir / 'metrics.jsonl') if 'eval/loss' in line]
    assert [(line['step'], 'test/loss' in line) for line in lines] == [(1, False), (2, False), (3, True)]
    assert json.loads((workdir / 'result.json').read_text()) == result
    assert result['stopped_early'] is True and result['steps'] == 3
    assert (result['best_metric'], result['best_step']) == ('eval/accuracy', 3)
    assert result['best_value'] == result['eval/accuracy'] == lines[0]['eval/accuracy'] and 'test/accuracy' in result
    for name in ('validation_confusion.png', 'test_confusion.png', 'loss.png'):
        assert (workdir / name).is_file()
    step, checkpoints = find_checkpoint(RunDirectory(workdir), 'best')
    manifest = checkpoints.manifest(3)
    assert step == 3 and (manifest['metric'], manifest['score']) == ('eval/accuracy', result['best_value'])


def test_a_run_that_is_killed_and_interrupted_on_its_way_ends_at_the_same_step(ended, tmp_path, monkeypatch):
    path, workdir, result = ended
    config, again = constant_config(path), tmp_path / 'run'

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):  # after the second evaluation, which is in no checkpoint
        write = Recorder.write
        patch.setattr(Recorder, 'write', lambda self, step, values: (write(self, step, values), 'eval/loss' in values
                                                                     and step == 2 and kill()))
        train.train(config, again)
    assert Checkpoints(again / 'checkpoints').steps() == []
    with monkeypatch.context() as patch, pytest.raises(train.Interrupted, match='stopped at step 2, saved'):
        patch.setattr(Interrupts, 'requested', lambda self, step: step == 2)
        train.train(config, again)
    with monkeypatch.context() as patch, pytest.raises(train.Interrupted, match='stopped at step 3, saved'):
        evaluate = evaluation.evaluate_state  # which a signal stops in the test split, of three batches
        patch.setattr(evaluation, 'evaluate_state', lambda strategy, step, state, batches, **options: (
            None if len(batches) == 3 else evaluate(strategy, step, state, batches, **options)))
        train.train(config, again)
    assert not (again / 'result.json').exists()
    result = dict(result, flops_per_step=None)  # of the steps of a process, and the last one trained none
    assert without_times(train.train(config, again)) == without_times(result)
    assert read_metrics(again / 'metrics.jsonl') == read_metrics(workdir / 'metrics.jsonl')


def test_what_makes_a_run_go_on_that_ended_early(ended):
    path, workdir, result = ended
    run, checkpoints = RunDirectory(workdir), Checkpoints(workdir / 'checkpoints')
    for fields, ends in (({}, True), (dict(patience=1), True), (dict(steps=5), True), (dict(patience=3), False),
                         (dict(steps=10), False), (dict(stop_metric='', patience=0), False),
                         (dict(stop_metric='eval/loss'), True)):
        config = constant_config(path, **fields)
        assert stopping.restored(config, run, checkpoints, 3).is_last(3) == ends, fields
        assert sweeps.finished(config, workdir) == (result if ends else None), fields


def test_a_run_whose_last_checkpoint_is_damaged_is_not_finished(ended, tmp_path):
    path, workdir = ended[0], shutil.copytree(ended[1], tmp_path / 'run')
    (workdir / 'checkpoints' / '00000003' / 'manifest.json').write_text('{')
    assert sweeps.finished(constant_config(path), workdir) is None


def test_what_a_killed_run_logged_past_its_checkpoint_does_not_count(ended):
    path, workdir, _ = ended
    restored = stopping.restored(constant_config(path), RunDirectory(workdir), Checkpoints(workdir / 'checkpoints'), 2)
    assert restored.best()[0] == 2 and restored.value(3) is None and not restored.is_last(3)


def test_started_again_it_does_nothing_and_with_more_steps_it_goes_on_to_the_next_evaluation(ended, tmp_path, capsys):
    (path, before, result), workdir = ended, tmp_path / 'run'
    shutil.copytree(before, workdir)
    assert without_times(train.train(constant_config(path), workdir)) == without_times(result)
    assert (workdir / 'metrics.jsonl').read_bytes() == (before / 'metrics.jsonl').read_bytes()
    assert 'step 3: ends early; eval/accuracy was best at step 3' in capsys.readouterr().err
    more = train.train(constant_config(path, steps=10), workdir)
    assert more['steps'] == more['best_step'] == 4 and more['stopped_early'] is True
    assert [line['step'] for line in read_metrics(workdir / 'metrics.jsonl') if 'test/loss' in line] == [3, 4]


# ------------------------------------------------------------------------------------------------ the names

def test_a_name_that_evaluations_do_not_know_is_refused_before_anything_is_written(ended, tmp_path):
    with pytest.raises(FieldError) as caught:
        train.train(constant_config(ended[0], stop_metric='eval/bleu'), tmp_path / 'run')
    assert str(caught.value) == ("config.train.stop_metric='eval/bleu': is not measured in this run; there are: eval/loss, "
                                 'eval/accuracy, eval/macro_f1')
    assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('task, names', [
    ('classification', {'loss', 'accuracy', 'macro_f1'}),
    ('tagging', {'loss', 'accuracy', 'macro_f1', 'f1/vowel', 'f1/other'}),
    ('regression', {'loss', 'absolute_error', 'root_mean_squared_error', 'pearson', 'spearman'}),
    ('language_model', {'loss', 'accuracy', 'perplexity', 'bits_per_token', 'bits_per_character', 'bits_per_byte'})])
def test_the_names_are_known_without_an_evaluation(task, names, tmp_path):
    config = (tiny_config('recurrent', data=dict(stateful=True)) if task == 'language_model' else
              labelled_config(write_labelled(tmp_path / 'file.jsonl', task), task, 'conv'))
    parts = build(config, RunDirectory(tmp_path / 'run'))
    assert set(evaluation.metric_names(parts)) == {f'eval/{name}' for name in names}
