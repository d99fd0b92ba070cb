"""Evaluation by what is written: in training, at its end, and afterwards. One run of a few seconds is looked at from all
sides."""

import json
import shutil
import types

import jax
from matplotlib import image
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import decode, train
from seqjax.data.text.pair_codec import PairCodec
from seqjax.errors import FieldError
from seqjax.modes.eval import evaluate
from seqjax.modes.translate import translate_lines
from seqjax.runs import RunDirectory, read_metrics
from seqjax.train import build, decode_eval, evaluation, sweeps
from seqjax.train.decode_eval import MEASURED, OF_FOUR_WORDS, Decoded, make_decoded
from seqjax.train.progress import ProgressBar
from tests.labelled_files import labelled_config, write_labelled
from tests.pair_files import SPLITS, pair_config, translated, write_pairs
from tests.reference import bleu as reference

ROWS = 10  # of the 15 pairs for validation


def run_config(path, **decode):
    """Learns words fast, and ends early when the translations of some pairs are no better any more."""
    return pair_config(path, data=dict(batch_size=32, tokenizer='word'), model=dict(width=16), decode=decode,
                       optimizer=dict(learning_rate=0.03, schedule='constant'),
                       train=dict(steps=600, eval_every=20, eval_batches=0, decode_rows=ROWS,
                                  stop_metric='eval/exact_match', patience=2))


@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    """(file, workdir, result)"""
    directory = tmp_path_factory.mktemp('decoded')
    path = write_pairs(directory / 'pairs.tsv')
    return path, directory / 'run', train.train(run_config(path), directory / 'run')


@pytest.fixture
def copied(ended, tmp_path):
    """(file, workdir) to evaluate again: that writes."""
    return ended[0], shutil.copytree(ended[1], tmp_path / 'run')


def evaluations(workdir):
    return [line for line in read_metrics(workdir / 'metrics.jsonl') if 'eval/loss' in line]


def snapshot(workdir):
    """{name: bytes} of the files that are no part of a checkpoint."""
    return {str(path.relative_to(workdir)): path.read_bytes() for path in sorted(workdir.rglob('*'))
            if path.is_file() and 'checkpoints' not in path.parts}


def kept(workdir, split):
    """The lines of {split}_translations.jsonl."""
    return [json.loads(line) for line in (workdir / f'{split}_translations.jsonl').read_text('utf-8').splitlines()]


# ------------------------------------------------------------------------------------------------ a whole run

def test_every_evaluation_has_the_scores_of_some_pairs_and_the_last_those_of_the_test_split(ended):
    _, workdir, result = ended
    lines = evaluations(workdir)
    assert all({f'eval/{name}' for name in MEASURED} <= line.keys() for line in lines)
    assert [any(f'test/{name}' in line for name in MEASURED) for line in lines] == [False] * (len(lines) - 1) + [True]
    for name in (f'{split}/{metric}' for split in ('eval', 'test') for metric in MEASURED):
        assert result[name] == lines[-1][name]
    assert lines[0]['eval/bleu'] < lines[-1]['eval/bleu'] and 20 < result['test/bleu'] < 100


def test_a_run_ends_when_its_translations_get_no_better(ended):
    _, workdir, result = ended
    matches = [line['eval/exact_match'] for line in evaluations(workdir)]
    assert result['stopped_early'] and result['best_metric'] == 'eval/exact_match'
    assert max(matches[-2:]) <= max(matches[:-2]) == result['best_value'] > 0.3
    assert all(max(matches[n - 2:n]) > max(matches[:n - 2]) for n in range(3, len(matches)))
    assert all(match * ROWS == round(match * ROWS) for match in matches)


def test_texts_scores_and_a_picture_are_kept(ended):
    path, workdir, result = ended
    pairs = [line.split('\t') for line in path.read_text().splitlines()[1:]]
    for split, name, rows in (('validation', 'eval', ROWS), ('test', 'test', SPLITS['test'])):
        lines, scores = kept(workdir, split), json.loads((workdir / f'{split}_scores.json').read_text())
        assert [(line['source'], line['reference']) for line in lines] == [
            (source, target) for source, target, part in pairs if part == split][:rows]
        answers, references = zip(*((line['answer'].split(), line['reference'].split()) for line in lines))
        assert scores['exact_match'] == result[f'{name}/exact_match'] == sum(map(list.__eq__, answers, references)) / rows
        assert scores['bleu'] == result[f'{name}/bleu'] == pytest.approx(reference.bleu(answers, references))
        assert scores['signature/bleu'].startswith('nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:')
        assert scores['search']['method'] == 'Beam' and scores['search']['num_beams'] == 1 and sum(part['sentences'] for part in scores['by_length']) == rows
        assert image.imread(workdir / f'{split}_by_length.png').ndim == 3
    assert any(line['answer'] == line['reference'] == translated(line['source']) for line in kept(workdir, 'test'))


def test_the_result_says_how_bleu_was_computed(ended):
    _, workdir, result = ended
    scores = json.loads((workdir / 'test_scores.json').read_text())
    assert result == json.loads((workdir / 'result.json').read_text())
    for name in ('bleu', 'tokenised_bleu', 'chrf'):
        assert result[f'signature/{name}'] == scores[f'signature/{name}']


def test_new_lines_are_translated_as_the_test_split_was(ended):
    path, workdir, _ = ended
    lines = kept(workdir, 'test')
    found = translate_lines(run_config(path), workdir, [line['source'] for line in lines])
    assert [text for (_, text), in found] == [line['answer'] for line in lines]


# ------------------------------------------------------------------------------------------------ afterwards

def test_evaluation_afterwards_finds_what_the_run_found(copied):
    path, workdir = copied
    last, config = evaluations(workdir)[-1], run_config(path)
    config.data.split = 'test'
    texts = kept(workdir, 'test')
    (workdir / 'test_translations.jsonl').unlink()
    found = evaluate(config, workdir)
    assert found.pop('step') == last['step']
    assert found == {key: pytest.approx(value, rel=1e-5) for key, value in last.items() if key.startswith('test')}
    assert kept(workdir, 'test') == texts


def test_evaluation_afterwards_is_of_all_pairs(copied, capsys, monkeypatch):
    path, workdir = copied
    first = kept(workdir, 'validation')
    monkeypatch.setattr(ProgressBar, 'SECONDS_BETWEEN_LINES', -1)
    found, scores = evaluate(run_config(path), workdir), json.loads((workdir / 'validation_scores.json').read_text())
    assert f'\ndecode {SPLITS["validation"]}/{SPLITS["validation"]}\nwritten to {workdir}: ' in capsys.readouterr().err
    lines = kept(workdir, 'validation')
    assert len(first) == ROWS and lines[:ROWS] == first and len(lines) == SPLITS['validation']
    assert found['eval/exact_match'] == sum(line['answer'] == line['reference'] for line in lines) / len(lines)
    assert found['eval/bleu'] == scores['bleu'] and sum(part['sentences'] for part in scores['by_length']) == len(lines)


def test_evaluation_with_another_search(copied, capsys):
    path, workdir = copied
    before = snapshot(workdir)
    found = evaluate(run_config(path, num_beams=3, n_best=2, max_new_tokens=1), workdir)
    step = evaluations(workdir)[-1]['step']
    folder = workdir / f'eval_{step:08d}_max_new_tokens=1_num_beams=3'
    assert f'written to {folder}: validation_translations.jsonl, validation_scores.json, ' in capsys.readouterr().err
    assert before.items() <= snapshot(workdir).items()  # what the run has measured stays
    assert found['eval/loss'] == pytest.approx(evaluations(workdir)[-1]['eval/loss'], rel=1e-5)
    lines, scores = kept(folder, 'validation'), json.loads((folder / 'validation_scores.json').read_text())
    assert len(lines) == SPLITS['validation'] and scores['search']['num_beams'] == 3 and scores['step'] == step
    assert all(len(line['answer'].split()) <= 1 for line in lines) and found['eval/bleu'] == scores['bleu']


@pytest.mark.parametrize('changes, step, name', [
    ({}, 40, ''), ({}, 60, ''), ({}, 20, 'eval_00000020'), ({'decode.num_beams': 2}, 40, 'eval_00000040_num_beams=2'),
    ({'decode.num_beams': 2, 'decode.length_penalty': 0.6}, 20, 'eval_00000020_length_penalty=0.6_num_beams=2'),
    ({'decode.prompt': 'x', 'decode.samples': 3, 'decode.batch_size': 1, 'decode.temperature': 2.0}, 40, ''),
    ({'decode.sample': True, 'decode.temperature': 2.0}, 40, 'eval_00000040_sample=True_temperature=2.0'),
    ({'train.eval_batches': 5}, 40, 'eval_00000040_eval_batches=5'),
    ({'train.eval_batches': 5, 'data.split': 'test'}, 40, ''), ({'train.decode_rows': 3}, 40, '')])
def test_what_the_run_does_not_measure_itself_has_a_folder_that_says_so(changes, step, name, tmp_path):
    config, run = run_config('pairs.tsv'), RunDirectory(tmp_path)
    run.write('config.json', configs.dumps(config))
    run.write('metrics.jsonl', ''.join(json.dumps({'step': n, 'eval/loss': 1.0}) + '\n' for n in (20, 40)))
    config.update_from_flattened_dict(changes)
    assert evaluation.place_of(config, run, step).path == tmp_path / name


def test_other_rows_of_the_same_source_are_not_written_down(copied):
    path, workdir = copied
    config = run_config(path)
    config.data.split_seed = 7
    before = snapshot(workdir)
    assert 'eval/exact_match' in evaluate(config, workdir)
    assert snapshot(workdir) == before


# ------------------------------------------------------------------------------------------------ when it is done

class Fake:
    """Something to decode that counts its calls."""

    def __init__(self, rows):
        self.rows, self.calls = rows, []

    def measure(self, model, params, name, seen):
        seen(1)
        self.calls.append(name)
        return types.SimpleNamespace(numbers={f'{name}/bleu': 1.0}, keep=lambda *_: self.calls.append(f'{name} kept'))


@pytest.fixture
def splits(monkeypatch):
    """evaluate_splits of nothing but translations."""
    monkeypatch.setattr(evaluation, 'evaluate_state', lambda *_, **__: 'sums')
    monkeypatch.setattr(evaluation, 'summarise', lambda task, sums, name: {f'{name}/loss': 2.0})
    monkeypatch.setattr(evaluation, 'on_one_device', lambda strategy, state: (None, None))
    monkeypatch.setattr(evaluation, 'draw', lambda *_: None)
    return lambda fake, last, run='run', **options: evaluation.evaluate_splits(
        types.SimpleNamespace(evaluation=[1], test=[1], decoded=fake, task=types.SimpleNamespace(model=None), strategy=None),
        None, None, 3, lambda step, found: last, run, **options)


@pytest.mark.parametrize('rows, last, calls', [
    (0, False, []), (0, True, ['eval', 'eval kept', 'test', 'test kept']),
    (5, False, ['eval']), (5, True, ['eval', 'eval kept', 'test', 'test kept'])])
def test_some_pairs_are_decoded_every_time_and_whole_splits_at_the_end(rows, last, calls, splits):
    fake = Fake(rows)
    assert splits(fake, last).keys() == {f'{name}/loss' for name in ('eval', 'test')[:1 + last]} | {
        f'{name}/bleu' for name in calls if 'kept' not in name}
    assert fake.calls == calls
    assert splits(None, last).keys() == {f'{name}/loss' for name in ('eval', 'test')[:1 + last]}


@pytest.mark.parametrize('rows', [0, 5])
def test_a_signal_ends_it_between_two_batches(rows, splits):
    fake, seen = Fake(rows), []
    assert splits(fake, True, stop=lambda: bool(seen), seen=seen.append) is None
    assert fake.calls == [] and seen == [1]


def test_texts_that_are_drawn_are_drawn_by_the_seed_of_the_config(ended, monkeypatch):
    keys = []
    nothing = decode.Hypotheses(*np.zeros((4, 0)))
    monkeypatch.setattr(decode, 'search', lambda decoder, rows, method, *, key, **_: (
        keys.append((method, *jax.random.key_data(key).tolist())), [nothing for _ in rows])[1])
    for seed in (3, 4):
        config = run_config(ended[0], sample=True, temperature=3.0, seed=seed)
        parts = build(config, RunDirectory(ended[1]))
        assert parts.decoded.measure(parts.task.model, None, 'eval').answers == [''] * ROWS
    assert keys == [(decode.Sample(3.0), 0, 3), (decode.Sample(3.0), 0, 4)]


# ------------------------------------------------------------------------------------------------ other tasks, processes

def test_other_tasks_decode_nothing(tmp_path):
    config = labelled_config(write_labelled(tmp_path / 'trees.jsonl', 'classification'), 'classification', 'conv')
    assert build(config, RunDirectory(tmp_path / 'run')).decoded is None


def test_several_processes_leave_it_to_one_afterwards(ended, monkeypatch):
    config = run_config(ended[0])
    assert isinstance(make_decoded(config, types.SimpleNamespace(codec=PairCodec(None, None)), configs.task_of(config)), Decoded)
    monkeypatch.setattr(jax, 'process_count', lambda: 2)
    with pytest.raises(FieldError) as caught:
        make_decoded(config, types.SimpleNamespace(codec=PairCodec(None, None)), configs.task_of(config))
    assert str(caught.value) == (f'config.train.decode_rows={ROWS}: decoding is done by one process and not by 2; set it to '
                                 '0, and use --mode=eval afterwards')
    config.train.decode_rows = 0
    assert make_decoded(config, types.SimpleNamespace(codec=PairCodec(None, None)), configs.task_of(config)) is None


def test_what_is_not_decoded_on_the_way_cannot_end_a_run(ended, tmp_path):
    config = run_config(ended[0])
    config.train.decode_rows = 0
    with pytest.raises(FieldError) as caught:
        train.train(config, tmp_path / 'run')
    assert str(caught.value) == ("config.train.stop_metric='eval/exact_match': is not measured in this run; there are: "
                                 'eval/loss, eval/accuracy, eval/perplexity')


# ------------------------------------------------------------------------------------------------ answers of one word

@pytest.fixture(scope='module')
def one_word(tmp_path_factory):
    """(config, workdir, result) of a run whose answers have a word or two; it has learned nothing yet."""
    directory = tmp_path_factory.mktemp('one_word')
    path = write_pairs(directory / 'pairs.tsv')
    rows = [line.split('\t') for line in path.read_text().splitlines()]
    path.write_text(''.join('\t'.join([source.replace(' ', ''), target.replace(' ', ''), split]) + '\n'
                            for source, target, split in rows))
    config = pair_config(path, train=dict(steps=2, decode_rows=ROWS))
    return config, directory / 'run', train.train(config, directory / 'run')


def test_bleu_is_left_out_where_no_reference_has_four_words(one_word):
    config, workdir, result = one_word
    line, scores = evaluations(workdir)[-1], json.loads((workdir / 'test_scores.json').read_text())
    for name in OF_FOUR_WORDS:
        assert not any(name in key for found in (result, line, scores) for key in found)
    assert {'eval/chrf', 'eval/exact_match', 'test/chrf', 'test/exact_match'} <= result.keys()
    assert [list(row) for row in scores['by_length']] == [['from', 'to', 'sentences', 'exact_match']] * len(scores['by_length'])


def test_the_curve_by_length_is_then_that_of_exact_match(one_word, monkeypatch, tmp_path):
    shown = []
    for module in (decode_eval, sweeps):
        monkeypatch.setattr(module, 'plot_quality_by_length', lambda curves, path, metric: shown.append((curves, metric)))
    written = decode_eval.Written('test', decode.Greedy(), dict(exact_match=0.5), ['a'] * 40, ['b'] * 40, ['b', 'c'] * 20, [3] * 40)
    written.keep(RunDirectory(tmp_path), 9)
    assert shown == [({'test': [(3, 3, 40, 0.5)]}, 'exact match')]
    train.sweep({'run': one_word[0]}, one_word[1].parent)
    assert [metric for _, metric in shown] == ['exact match'] * 2


def test_bleu_cannot_end_a_run_that_does_not_measure_it(one_word, tmp_path):
    config = one_word[0].copy_and_resolve_references()
    config.train.update(stop_metric='eval/bleu', patience=2, eval_every=1)
    with pytest.raises(FieldError) as caught:
        train.train(config, tmp_path / 'run')
    assert str(caught.value) == ("config.train.stop_metric='eval/bleu': is not measured in this run; there are: eval/loss, "
                                 'eval/accuracy, eval/perplexity, eval/chrf, eval/exact_match')
