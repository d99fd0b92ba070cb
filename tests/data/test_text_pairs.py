"""Two texts a row, from tables, JSON lines and sets of TFDS: read as they stand there, or refused with the line."""

import json

import pytest

from seqjax import data
from seqjax.data.readers.examples import Example, TextPair
from seqjax.errors import FieldError
from tests.data.readers.test_malformed_files import read
from tests.tfds_sets import CLASSES, make_set
from tests.tiny import tiny_config

RECORDS = [('a man, "here"', 'somebody', 'yes'), ('a dog', 'nobody', 'no'), ('two trees', 'trees', 'yes'), ('rain', 'sun', 'no'),
           ('an ä', 'a letter', 'yes')]
EXPECTED = sorted((Example(TextPair(first, second), label) for first, second, label in RECORDS), key=repr)
HEADER = 'id\tpremise\thypothesis\tlabel\n'
TSV = HEADER + ''.join(f'{i}\t{a}\t{b}\t{label}\n' for i, (a, b, label) in enumerate(RECORDS))
QUOTED = 'premise,label,hypothesis\n' + ''.join('"{}",{},"{}"\n'.format(a.replace('"', '""'), label, b) for a, b, label in RECORDS)
JSONL = ''.join(json.dumps(dict(premise=a, hypothesis=b, label=label)) + '\n' for a, b, label in RECORDS)


def together(examples):
    return sorted(examples.train + examples.validation + examples.test, key=repr)


@pytest.mark.parametrize('name, text, columns', [
    ('pairs.tsv', TSV, 'premise,hypothesis'), ('pairs.tsv', TSV, 'premise, hypothesis'), ('pairs.tsv', TSV, '2,3'),
    ('pairs.csv', QUOTED, 'premise,hypothesis'), ('pairs.csv', QUOTED, '1,hypothesis'), ('pairs.jsonl', JSONL, 'premise,hypothesis'),
    ('pairs.tsv', TSV.partition('\n')[2], '2,3')])
def test_two_columns_are_two_texts(name, text, columns, tmp_path):
    found = read(tmp_path, name, text.encode(), input_column=columns)
    assert together(found) == EXPECTED


def test_the_order_of_the_columns_is_that_of_the_texts_and_numbers_may_be_their_answer(tmp_path):
    found = read(tmp_path, 'pairs.tsv', TSV.encode(), 'regression', input_column='hypothesis,premise', target_column='id')
    assert {(example.inputs.first, example.inputs.second): example.target for example in together(found)} == {
        (b, a): float(i) for i, (a, b, _) in enumerate(RECORDS)}


def test_a_name_with_a_comma_is_one_column(tmp_path):
    text = 'a,b\tlabel\n' + ''.join(f'{a}\t{label}\n' for a, _, label in RECORDS)
    assert {example.inputs for example in together(read(tmp_path, 'one.tsv', text.encode(), input_column='a,b'))} == {
        a for a, *_ in RECORDS}


@pytest.mark.parametrize('name, text, number, reason', [
    ('pairs.tsv', TSV + '9\t\tsomething\tyes\n', 7, 'the first input is empty'),
    ('pairs.tsv', TSV + '9\tsomething\t \tyes\n', 7, 'the second input is empty'),
    ('pairs.tsv', TSV + '9\tsomething\tyes\n', 7, 'has 3 columns and 4 are needed'),
    ('pairs.tsv', TSV + '9\ta\tb\t\n', 7, 'the label is empty'),
    ('pairs.jsonl', JSONL + '{"premise": "a", "label": "no"}\n', 6, "has no key 'hypothesis': "),
    ('pairs.jsonl', JSONL + '{"premise": 3, "hypothesis": "b", "label": "no"}\n', 6, 'the first input is a number and a text is needed'),
    ('pairs.jsonl', JSONL + '{"premise": "a", "hypothesis": ["b"], "label": "no"}\n', 6, 'the second input is a list and a text is '
     'needed')])
def test_a_malformed_pair_is_refused_with_its_line_or_skipped(name, text, number, reason, tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, name, text.encode(), input_column='premise,hypothesis')
    assert f'line {number}: {reason}' in str(caught.value)
    found = read(tmp_path, name, text.encode(), input_column='premise,hypothesis', on_error='skip')
    assert together(found) == EXPECTED and f'in line {number})' in found.report


@pytest.mark.parametrize('name, text, columns, task, sentence', [
    ('pairs.tsv', TSV, 'premise,hypotesis', 'classification', "has no such column; did you mean 'hypothesis'?"),
    ('pairs.tsv', TSV, 'premise,9', 'classification', 'has columns 1 to 4'),
    ('pairs.tsv', TSV, 'premise,premise', 'classification', "write one column, or two different ones as in 'a,b'"),
    ('pairs.tsv', TSV, '2,premise', 'classification', "write one column, or two different ones as in 'a,b'"),
    ('pairs.tsv', TSV, 'premise,', 'classification', "write one column, or two different ones as in 'a,b'"),
    ('pairs.tsv', TSV, 'id,premise,hypothesis', 'classification', "write one column, or two different ones as in 'a,b'"),
    ('pairs.jsonl', JSONL, 'premise,premise', 'classification', "write one column, or two different ones as in 'a,b'"),
    ('pairs.tsv', TSV, 'premise,hypothesis', 'translation', 'two texts a row are for classification and regression, and the task is '
     'translation; write one column'),
    ('pairs.jsonl', JSONL, 'premise,hypothesis', 'tagging', 'two texts a row are for classification and regression')])
def test_columns_that_cannot_be_meant_are_refused(name, text, columns, task, sentence, tmp_path):
    with pytest.raises(FieldError) as caught:
        read(tmp_path, name, text.encode(), task, input_column=columns)
    assert sentence in str(caught.value) and caught.value.field == 'data.input_column'


def test_a_pair_set_of_tfds(tmp_path):
    make_set('seqjax_pairs', {'train': [('a dog', 1), ('a cat', 0)] * 4, 'validation': [('sun', 1)]}, target=CLASSES,
             features=('first', 'second'))

    def load(columns):
        options = tiny_config('reader', data=dict(source='tfds:seqjax_pairs', directory=str(tmp_path), input_column=columns)).data
        return data.load_examples(options, 'classification')

    assert load('first,second').validation == [Example(TextPair('sun', 'sun'), 'good')]
    assert load('second').validation == [Example('sun', 'good')]
    for columns, sentence in (('first,third', "'third' is no text of tfds:seqjax_pairs; write one or two of: first, second"),
                              ('first,first', 'two different ones'), ('', 'needs exactly one text feature')):
        with pytest.raises(FieldError, match=sentence):
            load(columns)
