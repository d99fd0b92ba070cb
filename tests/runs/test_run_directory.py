"""The run directory: the log continues where the checkpoint does, and a directory belongs to one experiment."""

import json
import math
import types

import pytest

from seqjax import config as configs
from seqjax.data import CharTokenizer, LabelledCodec, PairCodec, TextCodec, load_codec
from seqjax.data.text.pair_codec import Vocabulary
from seqjax.data.text import tokenizers
from seqjax.errors import UserError
from seqjax.runs import files
from seqjax.runs.directory import MetricsLog, RunDirectory, jsonable, read_metrics
from tests.tiny import tiny_config



def dataset(facts, **files):
    """As much of a data set as a run writes down."""
    return types.SimpleNamespace(facts=lambda: facts, files=lambda: {f'{name}.json': text for name, text in files.items()})


CORPUS = dataset(dict(source='python', sha256='x'), codec=TextCodec(CharTokenizer('ab'), 16).dumps())


def line(step, **values):
    return json.dumps(dict(step=step, **values)) + '\n'


def log_of(run, text, step, *writes):
    """Opens the log at `step` over what a killed process left, writes, closes, and returns the lines."""
    run.path.mkdir(exist_ok=True)
    run.metrics.write_text(text)
    log = MetricsLog(run, step)
    for number, values in writes:
        log.write(number, values)
    log.close()
    return read_metrics(run.metrics)


@pytest.mark.parametrize('text, step, kept', [
    ('', 0, []),
    (line(1) + line(2) + line(3), 3, [1, 2, 3]),
    (line(1) + line(2) + line(3), 2, [1, 2]),
    (line(1) + line(2) + line(3), 0, []),
    (line(1) + line(2) + '{"step": 2, "ev', 2, [1, 2]),  # half a line
    (line(1) + line(2)[:-1], 2, [1]),  # a whole object and no newline: more might have followed
    (line(1) + line(2) + line(2) + line(3), 2, [1, 2, 2]),  # a step and its evaluation
])
def test_a_resumed_log_ends_at_the_step_of_the_checkpoint(text, step, kept, tmp_path):
    lines = log_of(RunDirectory(tmp_path / 'run'), text, step, (step + 1, {'train/loss': 1.5}))
    assert lines == [*(dict(step=number) for number in kept), {'step': step + 1, 'train/loss': 1.5}]


@pytest.mark.parametrize('value, logged', [
    (1.5, 1.5), (math.nan, None), (math.inf, None), (-math.inf, None), (True, True), ('0123abcd', '0123abcd'), (7, 7)])
def test_every_line_is_json_that_any_reader_takes(value, logged, tmp_path):
    run = RunDirectory(tmp_path)
    log_of(run, '', 0, (1, dict(field=value)))
    assert json.loads(run.metrics.read_text(), parse_constant=pytest.fail) == dict(step=1, field=logged)


def test_what_is_not_finite_has_no_word_in_json():
    assert jsonable(dict(a=1.5, b=math.nan, c=-math.inf, d='x', e=7)) == dict(a=1.5, b=None, c=None, d='x', e=7)


def test_synced_lines_are_there_for_another_reader(tmp_path):
    run = RunDirectory(tmp_path)
    log = MetricsLog(run, 0)
    log.write(1, {'train/loss': 2.0})
    log.sync()
    assert read_metrics(run.metrics) == [{'step': 1, 'train/loss': 2.0}]
    log.close()


def test_numbers_go_to_tensorboard_too(tmp_path):
    log_of(RunDirectory(tmp_path), '', 0, (1, {'train/loss': 2.0, 'batch': 'ff'}))
    events = b''.join(path.read_bytes() for path in tmp_path.glob('events.out.tfevents.*'))
    assert b'train/loss' in events and b'batch' not in events


def test_the_log_of_a_run_that_never_wrote_is_empty(tmp_path):
    assert read_metrics(tmp_path / 'metrics.jsonl') == []


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()} if path.is_dir() else None


def test_claiming_writes_down_config_tokenizer_and_text(tmp_path):
    run = RunDirectory(tmp_path / 'a' / 'run')
    run.claim(tiny_config(), CORPUS)
    assert run.saved_config().to_dict() == tiny_config().to_dict()
    assert json.loads(run.read('data.json')) == CORPUS.facts()
    assert load_codec(run.read('codec.json')).tokenizer.characters == 'ab'
    assert set(contents(run.path)) == {'config.json', 'data.json', 'codec.json'}


def test_claiming_again_keeps_the_text_and_takes_what_may_change(tmp_path):
    run = RunDirectory(tmp_path)
    run.claim(tiny_config(), CORPUS)
    other = dataset(dict(source='file:other'), codec=TextCodec(CharTokenizer('xyz'), 16).dumps())
    run.claim(tiny_config(train=dict(steps=99)), other)
    assert run.saved_config().train.steps == 99
    assert json.loads(run.read('data.json')) == CORPUS.facts()
    assert run.codec().tokenizer.characters == 'ab'


@pytest.mark.parametrize('prepare, sentence', [
    (lambda path: path.write_text(''), 'is a file; name a directory'),
    (lambda path: (path.mkdir(), (path / 'checkpoints').mkdir()),
     'has checkpoints and no config.json; choose another --workdir'),
    (lambda path: (path.mkdir(), (path / 'config.json').write_text(configs.dumps(tiny_config(seed=5)))),
     'holds another experiment, with config.seed=5 and not 0; choose another --workdir'),
    (lambda path: (path.mkdir(), (path / 'config.json').write_text(configs.dumps(tiny_config('recurrent')))),
     "holds another experiment, with config.model.name='recurrent' and not 'gpt' (and 34 more); choose another --workdir"),
], ids=['file', 'no config', 'other seed', 'other model'])
def test_a_directory_that_is_not_ours_is_refused_and_left_as_it_was(prepare, sentence, tmp_path):
    path = tmp_path / 'run'
    prepare(path)
    before = {file.name: file.is_file() and file.read_bytes() for file in tmp_path.rglob('*')}
    for refuse in (lambda: RunDirectory(path).check(tiny_config()), lambda: RunDirectory(path).claim(tiny_config(), CORPUS)):
        with pytest.raises(UserError) as caught:
            refuse()
        assert str(caught.value) == f'--workdir={path}: {sentence}'
    assert {file.name: file.is_file() and file.read_bytes() for file in tmp_path.rglob('*')} == before


def test_checking_makes_nothing(tmp_path):
    RunDirectory(tmp_path / 'run').check(tiny_config())
    assert not (tmp_path / 'run').exists()


def test_a_directory_of_several_runs_asks_for_one_of_them(tmp_path):
    for name in ('b', 'a'):
        RunDirectory(tmp_path / name).claim(tiny_config(), CORPUS)
    with pytest.raises(UserError) as caught:
        RunDirectory(tmp_path).saved_config()
    assert str(caught.value) == (f'--workdir={tmp_path}: holds several runs; name one of them, as in '
                                 f'--workdir={tmp_path / "a"}, or give --config=FILE to train them all')


def test_data_without_a_tokenizer_leaves_none_behind(tmp_path):
    run = RunDirectory(tmp_path)
    run.claim(tiny_config(), dataset(dict(source='adding')))
    assert set(contents(run.path)) == {'config.json', 'data.json'}
    with pytest.raises(UserError, match='the run was not trained on text, so there is no text to continue'):
        run.codec('text').tokenizer


def test_an_encoding_is_read_back_and_a_run_without_one_says_so(tmp_path):
    run, how = RunDirectory(tmp_path), LabelledCodec('classification', tokenizers.symbols('char', ['né']), classes=('ü', 'a b'))
    run.claim(tiny_config(), dataset(dict(source='file:x'), codec=how.dumps()))
    found = run.codec('labelled')
    assert (found.task, found.classes) == ('classification', ('ü', 'a b'))
    assert found.inputs('én?').tolist() == how.inputs('én?').tolist()
    with pytest.raises(UserError, match='the run has not learned to continue a text; use --mode=predict --input=FILE'):
        run.codec('text')
    (tmp_path / 'codec.json').unlink()
    with pytest.raises(UserError) as caught:
        run.codec('labelled')
    assert str(caught.value) == (f'--workdir={tmp_path}: the run has not learned to label sequences; '
                                 'use --mode=eval')


@pytest.mark.parametrize('files, mode', [
    (dict(), '--mode=eval'),
    (dict(codec=TextCodec(CharTokenizer('ab'), 16).dumps()), '--mode=generate'),
    (dict(tokenizer=tokenizers.dumps(CharTokenizer('ab'))), '--mode=generate'),
    (dict(codec=LabelledCodec('tagging', CharTokenizer('ab')).dumps()), '--mode=predict --input=FILE'),
    (dict(codec=LabelledCodec('masked_lm', CharTokenizer('ab')).dumps()), '--mode=predict --input=FILE'),
    (dict(codec=LabelledCodec('classification').dumps()), '--mode=eval'),
    (dict(codec=PairCodec(*[Vocabulary(CharTokenizer('ab'))] * 2).dumps()), '--mode=generate --input=FILE'),
], ids=['numbers', 'text', 'text of an older run', 'labels', 'masks', 'frames', 'pairs'])
def test_a_run_names_the_mode_that_asks_for_what_it_has_learned(files, mode, tmp_path):
    run = RunDirectory(tmp_path)
    run.claim(tiny_config(), dataset({}, **files))
    assert run.mode() == mode


@pytest.mark.parametrize('text, fragment', [
    (None, 'no run is here (no config.json); train one first with --config=FILE'),
    ('{"model": ', 'cannot be read ('),
    ('{}', "cannot be read ('model'); restore it or choose another --workdir"),
], ids=['missing', 'half', 'empty'])
def test_a_config_that_cannot_be_read_says_which(text, fragment, tmp_path):
    if text is not None:
        (tmp_path / 'config.json').write_text(text)
    with pytest.raises(UserError) as caught:
        RunDirectory(tmp_path).saved_config()
    assert fragment in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_file_is_replaced_whole_and_nothing_is_left_beside(tmp_path):
    for text in ('first', 'é second\n'):
        files.write_atomically(tmp_path / 'file.json', text)
        assert (tmp_path / 'file.json').read_text('utf-8') == text
    assert [path.name for path in tmp_path.iterdir()] == ['file.json']
