"""Real runs, through the launcher, on the embedded sets: what a newcomer does first."""

import json
import re

import pytest

from seqjax.modes.command import experiment_files
from tests.processes import finish, start

UNIGRAM_LOSS = 3.2  # nats: what knowing only the frequency of each character of the embedded text gives


def path_of(name):
    """'char_lstm' -> 'experiments/language/char_lstm.py', wherever it stands."""
    return next(str(path) for path in experiment_files.ours() if path.stem == name)


def run(*arguments):
    code, output, errors = finish(start(*arguments), timeout=1200)
    assert code == 0, errors
    return output, errors


def test_a_short_run_learns_resumes_evaluates_and_writes_python(tmp_path):
    workdir = tmp_path / 'run'
    train = ['--config=experiments/language/char_lstm.py', f'--workdir={workdir}', '--config.model.width=128',
             '--config.train.steps=300', '--config.train.eval_batches=20', '--config.train.eval_every=150',
             '--config.train.save_every=150', '--config.optimizer.warmup_steps=20']
    output, errors = run(*train)
    result = json.loads((workdir / 'result.json').read_text())
    assert result['eval/loss'] < UNIGRAM_LOSS - 0.8
    assert result['steps'] == 300 and result['tokens_per_second'] > 0 and result['parameters'] > 100_000
    assert f'run directory: {workdir}' in output and 'step 150: saved' in errors
    for name in ('config.json', 'data.json', 'codec.json', 'metrics.jsonl', 'loss.png', 'checkpoints/00000300'):
        assert (workdir / name).exists(), name
    assert list(workdir.glob('events.out.tfevents.*'))

    _, errors = run(*train)  # a finished run trains no further step
    assert 'resumed from step 300' in errors
    again = json.loads((workdir / 'result.json').read_text())
    assert again['eval/loss'] == result['eval/loss']

    output, _ = run(f'--workdir={workdir}', '--mode=eval')
    assert json.loads(output)['eval/loss'] == pytest.approx(result['eval/loss'], abs=1e-6)

    write = [f'--workdir={workdir}', '--mode=generate', '--config.decode.prompt=def ', '--config.decode.temperature=0.5']
    first, second = run(*write)[0], run(*write)[0]
    assert first == second and first.startswith('def ')
    four = run(*write, '--config.decode.seed=1', '--config.decode.samples=4')[0]
    assert first not in four
    assert len(re.findall(r'\b(self|def|the|if|in|return|import)\b', four)) >= 12  # in 2,000 characters


@pytest.mark.slow
@pytest.mark.parametrize('experiment, loss', [('char_lstm', 1.8), ('char_gpt', 1.75)])
def test_experiments_reach_the_score_they_state(experiment, loss, tmp_path):
    run(f'--config={path_of(experiment)}', f'--workdir={tmp_path / "run"}')
    assert json.loads((tmp_path / 'run' / 'result.json').read_text())['eval/loss'] < loss


@pytest.mark.slow
@pytest.mark.parametrize('experiment, score, wanted, baseline', [
    ('language_id', 'accuracy', 0.7, 'naive_bayes_accuracy'),
    ('sentiment', 'accuracy', 0.9, 'naive_bayes_accuracy'),
    ('tagging:softmax', 'accuracy', 0.9, 'most_frequent_label_accuracy'),
    ('tagging:crf', 'accuracy', 0.9, 'most_frequent_label_accuracy'),
    ('protein_fitness:gru', 'spearman', 0.9, 'ridge_spearman'),
    ('protein_fitness:conv', 'spearman', 0.9, 'ridge_spearman'),
    ('protein_structure', 'accuracy', 0.8, 'most_frequent_label_accuracy'),
    ('clip_classification', 'accuracy', 0.75, 'majority_accuracy'),
    ('frame_labels', 'accuracy', 0.65, 'majority_accuracy'),
    ('three_ways:gru', 'accuracy', 0.9, 'naive_bayes_accuracy'),
    ('three_ways:conv', 'accuracy', 0.9, 'naive_bayes_accuracy'),
    ('three_ways:attention', 'accuracy', 0.9, 'naive_bayes_accuracy'),
])
def test_labelled_experiments_are_far_better_than_chance_and_than_counting(experiment, score, wanted, baseline, tmp_path):
    name, _, variant = experiment.partition(':')
    run(f'--config={path_of(name)}' + (f':{variant}' if variant else ''), f'--workdir={tmp_path / "run"}')
    result = json.loads((tmp_path / 'run' / 'result.json').read_text())
    assert result[f'test/{score}'] > max(wanted, result[f'test/{baseline}'] + 0.1)


@pytest.mark.slow
@pytest.mark.parametrize('experiment, least, most', [('addition', 1.0, 1.0), ('reverse:attention', 1.0, 1.0), ('reverse:mapped', 0.0, 0.1)])
def test_sums_and_strings_backwards_are_right_to_the_last_one_where_there_is_attention(experiment, least, most, tmp_path):
    name, _, variant = experiment.partition(':')
    run(f'--config={path_of(name)}' + (f':{variant}' if variant else ''), f'--workdir={tmp_path / "run"}')
    result = json.loads((tmp_path / 'run' / 'result.json').read_text())
    assert least <= result['test/exact_match'] <= most


@pytest.mark.slow
def test_a_bert_that_has_read_the_text_needs_fewer_labels(tmp_path):
    run('--config=experiments/pretraining/bert_mlm.py', f'--workdir={tmp_path / "mlm"}')
    assert json.loads((tmp_path / 'mlm' / 'result.json').read_text())['eval/loss'] < 1.9
    scores = {}
    for variant, changes in (('pretrained', [f'--config.init_from={tmp_path / "mlm"}']), ('scratch', [])):
        run(f'--config=experiments/pretraining/bert_finetune.py:{variant}', f'--workdir={tmp_path / variant}', *changes)
        scores[variant] = json.loads((tmp_path / variant / 'result.json').read_text())['test/accuracy']
    assert scores['pretrained'] > max(0.9, scores['scratch'] + 0.02)
