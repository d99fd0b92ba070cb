"""Files of examples that are encoded once: a second start reads none of them and has the same batches, hash and codec."""

import functools
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from seqjax import data, metrics, tasks
from seqjax.data import encoded, loading
from seqjax.data.readers import lines
from seqjax.data.source import Rows
from seqjax.data.text import labelled_codec, tokenizers
from seqjax.data.text.labelled_codec import LabelledCodec
from seqjax.data.text.pair_codec import PairCodec
from seqjax.errors import FieldError
from tests.tiny import tiny_config

WORDS = ['a', 'dull', 'film', 'with', 'fine', 'été', "don't", '🙂', 'Ends', 'seven']
SPLITS = ('train', 'validation', 'test')


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path / 'cache'))


def write(path, written):
    """Writes a file of lines, 10 seconds ago; returns its path."""
    path.parent.mkdir(exist_ok=True)
    with (gzip.open if path.suffix == '.gz' else open)(path, 'wb') as file:
        file.write(''.join(f'{line}\n' for line in written).encode())
    os.utime(path, (time.time() - 10,) * 2)
    return path


def sentences(count, seed=0):
    rng = random.Random(seed)
    return [' '.join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(count)]


def classes(folder, suffix='tsv'):
    return write(folder / f'films.{suffix}', [f'{text}\t{"good" if "fine" in text else "bad"}' for text in sentences(60)])


def in_parts(folder):
    for name, seed in zip(('train', 'dev', 'test'), range(3)):
        write(folder / f'{name}.csv', ['text,target', *(f'"{text}",{len(text) / 7}' for text in sentences(30, seed))])
    return folder / '{train,dev,test}.csv'


def tagged(folder):
    rows = [[(word, 'B-X' if word == 'film' else 'O') for word in text.split()] for text in sentences(50)]
    return write(folder / 'tags.conll', ['\n'.join(f'{word} {tag}' for word, tag in row) + '\n' for row in rows])


def with_gaps(folder):
    rows = [dict(text=text, labels=[letter.strip() or None for letter in text]) for text in ['abba', 'a b', 'bab'] * 9]
    return write(folder / 'tags.jsonl', map(json.dumps, rows))


def two_texts(folder):
    pairs = zip(sentences(60), sentences(60, 1))
    return write(folder / 'nli.tsv', ['first\tsecond\tlabel', *(f'{one}\t{two}\t{len(one) > len(two)}' for one, two in pairs)])


def folder_of_classes(folder):
    write(folder / 'rows' / 'bad.txt', sentences(30))
    write(folder / 'rows' / 'README', ['of no class'])
    write(folder / 'rows' / 'good.txt.gz', sentences(20, 1))
    os.utime(folder / 'rows', (time.time() - 10,) * 2)
    return folder / 'rows'


def parallel(folder):
    for part, count in (('train', 50), ('val', 10), ('test', 8)):
        write(folder / f'{part}.de', [text.upper() for text in sentences(count)])
        write(folder / f'{part}.en', sentences(count, 1))
    return folder / '{train,val,test}.{de,en}'


def table_of_pairs(folder):
    return write(folder / 'pairs.tsv', ['source\ttarget', *(f'<de> {one}\t{one[::-1]}' for one in sentences(60))])


def vectors(folder):
    return str(write(folder / 'glove.txt', [f'{word} {i}.5 -{i} 2' for i, word in enumerate(WORDS[:6])]))


CASES = {
    'characters': (classes, 'classification', {}),
    'compressed, in pieces, few': (functools.partial(classes, suffix='tsv.gz'), 'classification',
                                   dict(tokenizer='bpe', vocabulary=270, train_examples=20, max_length=12)),
    'words with their spelling': (classes, 'classification', dict(tokenizer='word', characters_per_word=3, lowercase=True)),
    'word vectors': (classes, 'classification', dict(tokenizer='word', word_vectors=vectors)),
    'special tokens': (classes, 'classification', dict(tokenizer='unigram', vocabulary=280, special_tokens=True)),
    'special tokens, cut': (classes, 'classification', dict(tokenizer='byte', special_tokens=True, max_length=11)),
    'numbers in parts': (in_parts, 'regression', dict(batching='exact')),
    'tags, packed': (tagged, 'tagging', dict(tokenizer='word', batching='pack')),
    'labels with gaps': (with_gaps, 'tagging', {}),
    'two texts': (two_texts, 'classification', dict(tokenizer='word', special_tokens=True, input_column='first,second')),
    'a folder': (folder_of_classes, 'classification', dict(batching='pad', split_seed=3)),
    'parallel files': (parallel, 'translation', dict(tokenizer='bpe', vocabulary=280, lowercase=True, max_length=30)),
    'pairs of a table': (table_of_pairs, 'translation', dict(batch_tokens=99, shared_vocabulary=True)),
}


@pytest.fixture(params=CASES)
def load(request, tmp_path):
    """A function that loads a set anew, with a saved codec perhaps."""
    make, task, changed = CASES[request.param]
    changed = {name: value(tmp_path) if callable(value) else value for name, value in changed.items()}
    source = dict(source=f'file:{make(tmp_path)}')
    model = 'seq2seq' if task == 'translation' else 'reader'
    config = tiny_config(model, task=task, data=source | changed)
    return lambda saved=None: data.load(config.data, task, saved)


def nothing_is_read(patch):
    """From here on no file of examples is read and nothing is encoded or learned."""
    def refuse(*arguments, **named):
        pytest.fail('it is read or encoded again')

    for place, name in ((loading, 'load_examples'), (LabelledCodec, 'row'), (PairCodec, 'row'), (encoded.RowWriter, 'add'),
                        (lines.File, 'lines'), (tokenizers, 'train'), (tokenizers, 'symbols'),
                        (labelled_codec, 'load_word_vectors')):
        patch.setattr(place, name, refuse)


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        assert type(left) is type(right) and np.asarray(left).dtype == np.asarray(right).dtype
        np.testing.assert_array_equal(left, right)


def same_set(one, other):
    assert one.facts() == other.facts() and one.files() == other.files() and str(one) == str(other)
    assert (one.steps, one.shapes, one.splits, one.has_gaps) == (other.steps, other.shapes, other.splits, other.has_gaps)
    assert one.rows_of_a_step(4) == other.rows_of_a_step(4)
    same(dict(one.for_task()), dict(other.for_task()))
    same(dict(one.for_model()), dict(other.for_model()))
    same(one.sample(), other.sample())
    for split in SPLITS:
        same(list(one.rows[split]), list(other.rows[split]))
        same(one.rows[split][1:3], other.rows[split][1:3])
        assert hasattr(one, 'texts') == hasattr(other, 'texts')
        if hasattr(one, 'texts'):
            assert one.texts(split) == other.texts(split)
    batches, others = (made.training_batches(batch_size=4, seed=1) for made in (one, other))
    for step in (0, 1, 2, 3, 77):
        same(batches[step], others[step])
    for split in one.splits[1:]:
        same(*(list(made.evaluation_batches(batch_size=4, split=split)) for made in (one, other)))


def test_a_second_start_has_the_same_and_reads_nothing(load, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(loading, 'manifest', lambda paths: None)
        expected = load()
    assert all(isinstance(rows, Rows) for rows in expected.rows.values())
    first = load()
    assert all(isinstance(rows, encoded.EncodedRows) for rows in first.rows.values())
    same_set(first, expected)
    resumed = data.load_codec(first.files()['codec.json'])
    with monkeypatch.context() as patch:
        nothing_is_read(patch)
        second, third = load(), load(resumed)
        same_set(second, first)
    same_set(second, expected)
    same_set(third, expected)


def test_a_resumed_run_whose_rows_are_gone_has_the_same(load, tmp_path):
    first = load()
    entry, = (tmp_path / 'cache' / 'tokens').glob('rows_*')
    before = {file.name: file.read_bytes() for file in entry.iterdir()}
    saved = data.load_codec(first.files()['codec.json'])
    for file in entry.iterdir():
        file.unlink()
    again = load(saved)
    assert again.facts() == first.facts() and again.files() == first.files()
    assert {file.name: file.read_bytes() for file in entry.iterdir()} == before


def test_baselines_and_what_a_run_asks_of_rows(tmp_path):
    config = tiny_config('reader', task='classification', data=dict(source=f'file:{classes(tmp_path)}', tokenizer='word'))
    made, plain = data.load(config.data, 'classification'), loading.load_examples(config.data, 'classification')
    scores = metrics.baseline_scores('class', made.rows)
    assert scores == metrics.baseline_scores('class', data.load_labelled(plain, 'classification', config.data).rows)
    assert not made.rows['test'] and len(made.rows['train']) == 54
    same(made.rows['train'][-1], list(made.rows['train'])[53])
    with pytest.raises(IndexError):
        made.rows['train'][54]


def test_an_inherited_codec_learns_its_answers_once(tmp_path, monkeypatch):
    options = dict(source=f'file:{classes(tmp_path)}', tokenizer='word', special_tokens=True)
    config = tiny_config('reader', task='classification', data=options)
    other = data.load(config.data, 'classification')
    inherited = data.inherited(other.codec, 'classification')
    assert not inherited.task
    first = data.load(config.data, 'classification', inherited)
    nothing_is_read(monkeypatch)
    second = data.load(config.data, 'classification', inherited)
    resumed = data.load(config.data, 'classification', data.load_codec(first.files()['codec.json']))
    same_set(first, second)
    same_set(first, resumed)
    assert first.codec.classes == ('bad', 'good')


# ------------------------------------------------------------------------------------------------ when files are read again

def test_another_file_or_another_option_is_another_entry(tmp_path):
    path = classes(tmp_path)
    options = lambda changed: tiny_config('reader', task='classification', data=dict(source=f'file:{path}', **changed)).data
    load = lambda **changed: data.load(options(changed), 'classification')
    first = load()
    assert load(batch_size=3, num_buckets=2).facts() == first.facts()
    count = lambda: len(list((tmp_path / 'cache' / 'tokens').glob('rows_*')))
    assert count() == 1
    assert load(lowercase=True).facts()['sha256'] != first.facts()['sha256'] and count() == 2
    write(path, [f'{text}\t{len(text) > 9}' for text in sentences(40)])
    assert load().facts()['train'] == 36 and count() == 3
    os.utime(path)  # written so lately that it may be written again within the same tick of the clock
    assert load().facts()['train'] == 36 and count() == 3


def test_what_is_wrong_with_a_file_is_said_every_time(tmp_path):
    path = write(tmp_path / 'films.tsv', ['fine\tgood', 'no label', 'dull\tbad'])
    config = tiny_config('reader', task='classification', data=dict(source=f'file:{path}'))
    for _ in range(2):
        with pytest.raises(FieldError, match='line 2: has 1 column'):
            data.load(config.data, 'classification')
    with pytest.raises(FieldError, match='no such file'):
        data.load(tiny_config('reader', task='classification', data=dict(source='file:nowhere.tsv')).data, 'classification')
    assert not list((tmp_path / 'cache' / 'tokens').iterdir())


@pytest.mark.parametrize('harm', [
    lambda file: file.write_bytes(file.read_bytes()[:-1]), lambda file: file.unlink(),
    lambda file: file.write_bytes(file.read_bytes()[:-1] + b'\xfe')], ids=['cut', 'gone', 'changed'])
@pytest.mark.parametrize('name', ['train.inputs.npy', 'validation.inputs.ends.npy', 'entry.json'])
def test_a_damaged_entry_is_made_again(name, harm, tmp_path):
    config = tiny_config('reader', task='classification', data=dict(source=f'file:{classes(tmp_path)}'))
    expected = list(data.load(config.data, 'classification').rows['train'])
    entry, = (tmp_path / 'cache' / 'tokens').glob('rows_*')
    before = {file.name: file.read_bytes() for file in entry.iterdir()}
    harm(entry / name)
    same(list(data.load(config.data, 'classification').rows['train']), expected)
    assert {file.name: file.read_bytes() for file in entry.iterdir()} == before
    assert len(list(entry.parent.iterdir())) == 2  # the rows and the codec; nothing is left beside


def test_processes_that_begin_together_have_the_same(tmp_path):
    path = classes(tmp_path)
    code = ('import sys; from seqjax import data; from tests.tiny import tiny_config\n'
            'options = tiny_config("reader", task="classification", data=dict(source=f"file:{sys.argv[1]}")).data\n'
            'made = data.load(options, "classification")\n'
            'print(made.facts()["sha256"], sum(int(row["inputs"].sum()) for row in made.rows["train"]))')
    started = [subprocess.Popen([sys.executable, '-c', code, str(path)], stdout=subprocess.PIPE, text=True,
                                cwd=pathlib.Path(__file__).parents[2]) for _ in range(3)]
    answers = {process.communicate()[0] for process in started}
    assert len(answers) == 1 and len(answers.pop().split()) == 2
    assert sorted(entry.name.split('_')[0] for entry in (tmp_path / 'cache' / 'tokens').iterdir()) == ['codec', 'rows']


def test_tasks_that_read_files_of_examples_are_all_here():
    kinds = {tasks.TASKS[task].takes() for _, task, _ in CASES.values()}
    assert kinds == {task.takes() for task in tasks.TASKS.values() if task.data in ('labelled', 'pairs')}
