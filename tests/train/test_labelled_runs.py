"""Whole runs over labelled sequences and over packed documents: what they log and leave behind, and how they go on."""

import json
import math
import shutil

import jax
import numpy as np
import pytest

from seqjax import ops, train
from seqjax.data import Labelled
from seqjax.errors import FieldError, UserError
from seqjax.modes.eval import evaluate
from seqjax.runs import Checkpoints, RunDirectory, read_metrics
from seqjax.train import build, loop
from seqjax.train.interrupts import Interrupts
from tests.labelled_files import LETTERS, SPLITS, labelled_config, write_labelled
from tests.tiny import tiny_config

TIMES = ('seconds', 'tokens_per_second', 'flops_per_second', 'utilisation')  # of result.json: all that may differ


def classification_config(path):
    return labelled_config(path, 'classification', model=dict(dropout=0.2),
                           train=dict(steps=4, eval_every=2, eval_batches=1, save_every=2))


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    """(config, workdir, result) of a run that classifies texts."""
    directory = tmp_path_factory.mktemp('classification')
    config = classification_config(write_labelled(directory / 'trees.jsonl', 'classification'))
    return config, directory / 'run', train.train(config, directory / 'run')


def changed(config, **fields):
    config = config.copy_and_resolve_references()
    config.data.update(fields)
    return config


def files(workdir):
    """{path: bytes and when they were written}"""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in workdir.rglob('*') if path.is_file()}


def log_of(workdir):
    return read_metrics(workdir / 'metrics.jsonl')


# ------------------------------------------------------------------------------------------------ what a run leaves

def test_the_log_has_every_evaluation_and_the_result_its_last_with_baselines(run):
    _, workdir, result = run
    scores = {'loss', 'accuracy', 'macro_f1'}
    evaluations = {line['step']: set(line) - {'step'} for line in log_of(workdir) if 'eval/loss' in line}
    on_validation, on_test = ({f'{split}/{score}' for score in scores} for split in ('eval', 'test'))
    assert evaluations == {2: on_validation, 4: on_validation | on_test}
    assert [line['step'] for line in log_of(workdir) if 'train/accuracy' in line] == [1, 2, 3, 4]
    last = next(line for line in reversed(log_of(workdir)) if 'test/loss' in line)
    assert {name: result[name] for name in last if name != 'step'} == {name: last[name] for name in last if name != 'step'}
    baselines = {f'{split}/{score}' for split in ('eval', 'test') for score in ('majority_accuracy', 'naive_bayes_accuracy')}
    assert baselines <= set(result) and all(0 <= result[name] <= 1 for name in baselines)
    assert result['flops_per_step'] > 0 and result['parameters'] > 0 and result['steps'] == 4 and result['skipped'] == 0
    assert json.loads((workdir / 'result.json').read_text(), parse_constant=pytest.fail) == result


def test_pictures_tables_and_the_encoding_are_beside_it(run):
    config, workdir, result = run
    first = build(config, RunDirectory(workdir)).evaluation[0]['weights'].sum()  # eval_batches=1, but for the test split
    for split, name, rows in (('validation', 'eval', first), ('test', 'test', SPLITS['test'])):
        assert (workdir / f'{split}_confusion.png').stat().st_size > 1000
        table = json.loads((workdir / f'{split}_confusion.json').read_text())
        counts = np.array(table['counts'])
        assert table['classes'] == list(LETTERS) and counts.sum() == rows and table['step'] == 4
        assert result[f'{name}/accuracy'] == pytest.approx(np.trace(counts) / rows)
    assert RunDirectory(workdir).codec('labelled').classes == tuple(LETTERS)
    facts = json.loads((workdir / 'data.json').read_text())
    assert {split: facts[split] for split in SPLITS} == SPLITS
    assert facts['report'] == f'trees.jsonl: {sum(SPLITS.values())} records'


# ------------------------------------------------------------------------------------------------ going on

def test_a_run_that_is_interrupted_and_started_again_ends_the_same(run, tmp_path, monkeypatch, capsys):
    config, workdir, result = run
    with monkeypatch.context() as patch, pytest.raises(train.Interrupted, match='stopped at step 3, saved'):
        patch.setattr(Interrupts, 'requested', lambda self, step: step == 3)
        train.train(config, tmp_path / 'run')
    assert not (tmp_path / 'run' / 'result.json').exists()
    again = train.train(config, tmp_path / 'run')
    errors = capsys.readouterr().err
    assert 'resumed from step 3' in errors and 'warning' not in errors
    assert log_of(tmp_path / 'run') == log_of(workdir)
    assert {name: value for name, value in again.items() if name not in TIMES} == {
        name: value for name, value in result.items() if name not in TIMES}
    place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    states = []
    for directory in (workdir, tmp_path / 'run'):
        checkpoints = Checkpoints(directory / 'checkpoints')
        target = {path: jax.ShapeDtypeStruct(tuple(x['shape']), x['dtype'], sharding=place)
                  for path, x in checkpoints.manifest(4)['arrays'].items()}
        states.append(jax.device_get(checkpoints.restore(4, target)))
    jax.tree.map(np.testing.assert_array_equal, *states)


def test_a_finished_run_that_is_started_again_compiles_nothing_and_writes_nothing(run, tmp_path, monkeypatch, capsys):
    config, workdir = run[0], shutil.copytree(run[1], tmp_path / 'run')
    before = files(workdir)
    with monkeypatch.context() as patch:
        patch.setattr(loop, '_programs', lambda *_: pytest.fail('compiled'))
        assert train.train(config, workdir) == run[2]
    assert files(workdir) == before
    assert capsys.readouterr().err == (f'reading {config.data.source}\n'
                                       'resumed from step 4, the last one; nothing is left to do\n')


@pytest.mark.parametrize('lost', ['result.json', 'test/loss', 'steps'])
def test_what_a_finished_run_lacks_is_made_up_for(lost, run, tmp_path):
    config, workdir = run[0], shutil.copytree(run[1], tmp_path / 'run')
    if lost == 'test/loss':  # it was killed before it had measured the test split
        kept = [line for line in (workdir / 'metrics.jsonl').read_text().splitlines(keepends=True) if lost not in line]
        (workdir / 'metrics.jsonl').write_text(''.join(kept))
    elif lost == 'steps':  # of a run that has been given more steps since
        (workdir / 'result.json').write_text(json.dumps({**run[2], lost: 2}))
    else:
        (workdir / lost).unlink()
    again = train.train(config, workdir)
    assert json.loads((workdir / 'result.json').read_text()) == again and again['steps'] == 4
    assert again['test/loss'] == run[2]['test/loss'] and log_of(workdir)[-1]['test/loss'] == again['test/loss']


def test_an_older_checkpoint_is_evaluated_into_a_folder_of_its_own(run, tmp_path, capsys):
    config, workdir = run[0], shutil.copytree(run[1], tmp_path / 'run')
    before = files(workdir)
    found, folder = evaluate(config, workdir, '2'), workdir / 'eval_00000002'
    assert f'written to {folder}: validation_confusion.png, validation_confusion.json\n' in capsys.readouterr().err
    assert json.loads((folder / 'validation_confusion.json').read_text())['step'] == found['step'] == 2
    after = files(workdir)
    assert {name: after[name] for name in before} == before and len(after) == len(before) + 2
    evaluate(config, workdir)  # of the last step, as the run did
    assert files(workdir).keys() == after.keys()


def test_a_run_that_ends_earlier_than_it_meant_to_measures_the_test_split_all_the_same(run, tmp_path):
    config, workdir = run[0].copy_and_resolve_references(), shutil.copytree(run[1], tmp_path / 'run')
    shutil.rmtree(workdir / 'checkpoints' / '00000004')
    for name in ('result.json', 'test_confusion.png'):
        (workdir / name).unlink()
    config.train.steps = 2  # which was evaluated and saved, but not as the last
    result = train.train(config, workdir)
    assert {'eval/loss', 'test/loss'} <= set(result) and (workdir / 'test_confusion.png').exists()
    before = next(line for line in log_of(run[1]) if 'eval/loss' in line)
    assert result['eval/loss'] == before['eval/loss'] and result['steps'] == before['step'] == 2


@pytest.mark.parametrize('split, name', [('validation', 'eval'), ('test', 'test')])
def test_evaluation_of_a_split_gives_the_numbers_of_the_result(run, split, name):
    config, workdir, result = run
    (workdir / f'{split}_confusion.png').unlink()
    found = evaluate(changed(config, split=split), workdir)
    assert found.pop('step') == 4
    assert found == {f'{name}/{score}': result[f'{name}/{score}'] for score in ('loss', 'accuracy', 'macro_f1')}
    assert (workdir / f'{split}_confusion.png').exists()


def test_training_is_not_watched_on_the_test_split(run, tmp_path):
    with pytest.raises(FieldError) as caught:
        train.train(changed(run[0], split='test'), tmp_path / 'run')
    assert str(caught.value) == ("config.data.split='test': training is watched on the validation split, and the test split "
                                 'is measured once, at the end; leave it out, or use --mode=eval')
    assert not (tmp_path / 'run').exists()


def test_a_split_that_the_set_does_not_have_is_refused(tmp_path):
    path = write_labelled(tmp_path / 'trees.jsonl', 'classification')
    path.write_text(''.join(line for line in path.read_text().splitlines(keepends=True) if '"test"' not in line))
    with pytest.raises(FieldError) as caught:
        build(changed(classification_config(path), split='test'), RunDirectory(tmp_path / 'run'))
    assert str(caught.value) == "config.data.split='test': the set has only: train, validation"


# ------------------------------------------------------------------------------------------------ the same data

@pytest.mark.parametrize('change', [
    lambda text: text.replace('"text": "', '"text": "x', 1),
    lambda text: '"train"'.join(text.split('"validation"', 1)),  # the same records in the same order, cut elsewhere
    lambda text: text + text.splitlines()[0] + '\n',
], ids=['letter', 'split', 'record'])
def test_a_run_does_not_go_on_with_other_data(change, tmp_path):
    path = write_labelled(tmp_path / 'trees.jsonl', 'classification')
    config, run = classification_config(path), RunDirectory(tmp_path / 'run')
    run.claim(config, build(config, run).dataset)
    build(config, run)
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError) as caught:
        train.train(config, run.path)
    assert str(caught.value) == (f"the data of 'file:{path}' is not what this run began with (in {run.path}); restore it, "
                                 'or start a new run in another --workdir')


def test_another_file_is_measured_with_what_the_run_learned(run, tmp_path):
    (config, workdir, _), path = run, tmp_path / 'other.jsonl'
    path.write_text('\n'.join(
        json.dumps(dict(text=text, label=label, split=split)) for text, label, split in
        [('abé', 'ash', 'train'), ('gh', 'cedar', 'train'), ('abcd', 'ash', 'validation'), ('hhgf', 'cedar', 'validation')]))
    before = (workdir / 'validation_confusion.json').read_bytes()
    found = evaluate(changed(config, source=f'file:{path}', batch_size=2), workdir)
    assert found['eval/accuracy'] in (0.0, 0.5, 1.0)
    assert (workdir / 'validation_confusion.json').read_bytes() == before  # of the run's own data
    path.write_text(path.read_text().replace('cedar', 'oak'))
    with pytest.raises(FieldError) as caught:
        evaluate(changed(config, source=f'file:{path}', batch_size=2), workdir)
    assert str(caught.value) == (f"config.data.source='file:{path}': has the label 'oak', which was not learned; there are: "
                                 'ash, birch, cedar')


def test_a_run_that_was_stopped_before_its_first_checkpoint_has_its_word_vectors_again(tmp_path):
    path = write_labelled(tmp_path / 'trees.jsonl', 'classification')
    words = sorted({json.loads(line)['text'] for line in path.read_text().splitlines()})[:9]
    (tmp_path / 'vectors.txt').write_text(''.join(f'{word} {i} 0.5 -1\n' for i, word in enumerate(words)))
    config = labelled_config(path, 'classification', data=dict(tokenizer='word', word_vectors=str(tmp_path / 'vectors.txt')))
    run = RunDirectory(tmp_path / 'run')
    first = build(config, run)
    run.claim(config, first.dataset)
    table = first.dataset.codec.table
    assert run.codec('labelled').table.shape == table.shape == (first.dataset.tokenizer.vocabulary, 3) and np.abs(table).max() > 1
    np.testing.assert_array_equal(build(config, run).dataset.codec.table, table)


# ------------------------------------------------------------------------------------------------ tagging, regression

def test_a_tagger_in_two_buckets_reports_what_it_compiles_beyond_what_was_declared(tmp_path, monkeypatch, capsys):
    config = labelled_config(write_labelled(tmp_path / 'letters.jsonl', 'tagging'), 'tagging', 'conv', model=dict(crf=True),
                             train=dict(steps=3, eval_batches=0))
    config.data.update(batching='bucket', num_buckets=2)
    declared = Labelled.shapes.fget
    monkeypatch.setattr(Labelled, 'shapes', property(lambda self: tuple(number - 1 for number in declared(self))))
    result = train.train(config, tmp_path / 'run')
    errors = capsys.readouterr().err
    assert errors.count('warning: compilation 2 of a step that declared 1, for {') == 2  # one of training, one of evaluation
    assert errors.count('warning') == 2
    scores = ('loss', 'accuracy', 'macro_f1', 'f1/other', 'f1/vowel', 'majority_accuracy', 'most_frequent_label_accuracy')
    assert {f'{split}/{score}' for split in ('eval', 'test') for score in scores} <= set(result)
    assert result['test/most_frequent_label_accuracy'] == 1 and 'train/accuracy' not in result
    assert 'f1/' not in errors  # of single tags only the log knows
    counts = np.array(json.loads((tmp_path / 'run' / 'test_confusion.json').read_text())['counts'])
    records = map(json.loads, (tmp_path / 'letters.jsonl').read_text().splitlines())
    letters = ''.join(record['text'] for record in records if record['split'] == 'test')
    vowels = sum(letter in 'ae' for letter in letters)
    assert counts.sum(axis=1).tolist() == [len(letters) - vowels, vowels]


def test_a_regression_run_draws_its_predictions_and_has_only_numbers_in_its_result(tmp_path):
    path = write_labelled(tmp_path / 'lengths.jsonl', 'regression')
    lines = [line for line in path.read_text().splitlines(keepends=True) if '"test"' not in line]
    path.write_text(''.join([*lines, lines[0].replace('"train"', '"test"')]))  # no correlation of one row
    config = labelled_config(path, 'regression', 'conv', train=dict(steps=2, eval_batches=0))
    result = train.train(config, tmp_path / 'run')
    assert json.loads((tmp_path / 'run' / 'result.json').read_text(), parse_constant=pytest.fail) == result
    assert -1 <= result['eval/spearman'] <= 1 and -1 <= result['eval/ridge_spearman'] <= 1
    assert result['test/spearman'] is None and result['test/ridge_spearman'] is None and result['test/absolute_error'] > 0
    assert (tmp_path / 'run' / 'validation_predictions.png').exists()
    targets = [json.loads(line)['label'] for line in lines if '"validation"' in line]
    scale = RunDirectory(tmp_path / 'run').codec('labelled').scale
    assert result['eval/root_mean_squared_error'] == pytest.approx(scale * math.sqrt(result['eval/loss']))
    assert result['eval/root_mean_squared_error'] < 2 * np.ptp(targets)
    found = evaluate(changed(config, split='test'), tmp_path / 'run')
    assert found['test/spearman'] is None and found['test/loss'] == result['test/loss']


@pytest.mark.parametrize('encoder', ['gru', 'conv', 'attention'])
def test_the_width_follows_from_the_number_of_parameters(encoder, tmp_path):
    path = write_labelled(tmp_path / 'trees.jsonl', 'classification')
    config = labelled_config(path, 'classification', encoder, parameters=20_000)
    parts = build(config, RunDirectory(tmp_path / 'run'))
    assert parts.task.model.width > 8 and parts.parameter_count() == pytest.approx(20_000, rel=0.1)
    config.parameters = 0
    assert build(config, RunDirectory(tmp_path / 'run')).task.model.width == 8
    config.parameters = 5
    with pytest.raises(FieldError, match='^config.parameters=5: the narrowest model has [0-9]+; ask for more'):
        build(config, RunDirectory(tmp_path / 'run'))


# ------------------------------------------------------------------------------------------------ documents of a text

PARAGRAPHS = ['Zwölf Boxer jagen\nViktor quer.', 'Ein Reh.', 'Quer über den Teich.\nIn die Nächte!', 'So, so.',
              'Drei\nzwei\neins.']


@pytest.fixture(scope='module', params=[('recurrent', 'char'), ('gpt', 'bpe')], ids=['recurrent', 'gpt'])
def packed(request, tmp_path_factory):
    """(config, workdir, result) of a language model over paragraphs, several in a row."""
    (model, tokenizer), directory = request.param, tmp_path_factory.mktemp('packed')
    (directory / 'text.txt').write_text('\n\n'.join(PARAGRAPHS * 8) + '\n\n', 'utf-8')
    config = tiny_config(model, data=dict(source=f'file:{directory / "text.txt"}', documents='paragraph', held_out=0.3,
                                          tokenizer=tokenizer, vocabulary=270, sequence_length=40),
                         model=dict(width=8), train=dict(steps=3, eval_batches=0), parallel=dict(data=1))
    return config, directory / 'run', train.train(config, directory / 'run')


def test_bits_of_packed_documents_are_those_of_one_document_at_a_time(packed):
    config, workdir, result = packed
    parts = build(config, RunDirectory(workdir))
    params = Checkpoints(workdir / 'checkpoints').restore(3, {'params': parts.target.params}, part=True)['params']
    tokenizer, T = parts.dataset.tokenizer, config.data.sequence_length
    text = (workdir.parent / 'text.txt').read_text('utf-8')
    documents = [document + '\n\n' for document in text[round(len(text) * 0.7):].split('\n\n')[:-1]]
    rows = np.zeros((len(documents), T + 1), np.int32)  # a document a row: no segments
    tokens = characters = size = 0
    for row, document in zip(rows, documents):
        numbers = tokenizer.encode(document)
        row[:len(numbers)] = numbers
        rest = document.removeprefix(tokenizer.decode(numbers[:1]))  # nothing predicts the first token
        assert len(rest) < len(document)
        tokens, characters, size = tokens + len(numbers) - 1, characters + len(rest), size + len(rest.encode('utf-8'))
    read = jax.jit(lambda params: parts.task.model.apply({'params': params}, rows[:, :-1]))
    losses = ops.cross_entropy(read(params), rows[:, 1:])
    real = np.arange(T) < np.array([[len(tokenizer.encode(document)) - 1] for document in documents])
    bits = float(np.asarray(losses)[real].sum()) / math.log(2)
    expected = dict(token=bits / tokens, character=bits / characters, byte=bits / size)
    assert {unit: result[f'eval/bits_per_{unit}'] for unit in expected} == pytest.approx(expected, rel=1e-5)
    assert size > characters and (characters > tokens) == (config.data.tokenizer == 'bpe')
    logged = next(line for line in log_of(workdir) if 'eval/loss' in line)
    assert logged['eval/bits_per_byte'] == result['eval/bits_per_byte'] < result['eval/bits_per_character']


def test_packed_documents_are_trained_on_and_counted(packed):
    _, workdir, result = packed
    facts = json.loads((workdir / 'data.json').read_text())
    assert facts['train_documents'] + facts['validation_documents'] in (40, 41)  # the cut may go through one
    assert facts['cut_documents'] == 0 and facts['real_positions'] > 0.5
    losses = [line['train/loss'] for line in log_of(workdir) if 'train/loss' in line]
    assert len(losses) == 3 and all(map(math.isfinite, losses)) and result['skipped'] == 0
