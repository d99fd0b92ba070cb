"""Sequences of numbers from tables, JSON lines and arrays: the same sequences whatever the file, and what is malformed named by its line."""

import csv
import json
import re

import numpy as np
import pytest

from seqjax import data
from seqjax.errors import FieldError
from tests.tiny import tiny_config

D, NAMES = 3, ('x', 'y', 'z')
RNG = np.random.default_rng(0)
SEQUENCES = [RNG.normal(size=(int(RNG.integers(2, 7)), D)).round(3).astype(np.float32) for _ in range(16)]
LABELS = ['up' if i % 2 else 'down' for i in range(16)]


def load(path, task='classification', **changes):
    return data.load(tiny_config('reader', task=task, data=dict(source=f'file:{path}', **changes)).data, task)


def write_steps(path, sequences=SEQUENCES, targets=LABELS, name='label', sign=',', time=True):
    with open(path, 'w', newline='') as file:
        writer = csv.writer(file, delimiter=sign, lineterminator='\n')
        writer.writerow(['id', *(['time'] if time else []), *NAMES, name])
        for i, (sequence, target) in enumerate(zip(sequences, targets)):
            for t, step in enumerate(sequence):
                writer.writerow([f's{i}', *([t] if time else []), *step, target[t] if isinstance(target, (list, tuple)) else target])


def write_jsonl(path, sequences=SEQUENCES, targets=LABELS, name='label'):
    path.write_text(''.join(json.dumps(dict(sequence=[[float(f'{x:.3f}') for x in step] for step in one], **{name: target})) + '\n'
                            for one, target in zip(sequences, targets)))


def found_rows(found):
    """Sorted (sequence, target) of all rows, before they were normalised."""
    codec = found.codec
    plain = lambda x: np.round(x * codec.deviation + codec.mean, 3).astype(np.float32).tolist()
    return sorted((plain(row['inputs']), np.asarray(row['targets']).tolist()) for rows in found.rows.values() for row in rows)


def same_rows(ours, theirs):
    assert len(ours) == len(theirs)
    for (one, target), (other, wanted) in zip(ours, theirs):
        np.testing.assert_allclose(one, other, atol=1.1e-3)
        assert target == wanted


def of_classes(sequences=SEQUENCES, labels=LABELS):
    return sorted((one.tolist(), ['down', 'up'].index(label)) for one, label in zip(sequences, labels))


def test_a_row_a_time_step(tmp_path):
    write_steps(tmp_path / 'a.csv')
    write_steps(tmp_path / 'b.tsv', sign='\t', time=False)
    for path in ('a.csv', 'b.tsv'):
        found = load(tmp_path / path, format='steps', held_out=0.25)
        same_rows(found_rows(found), of_classes())
        assert [len(rows) for rows in found.rows.values()] == [12, 4, 0] and found.for_model()['vocabulary'] is None
    chosen = load(tmp_path / 'a.csv', format='steps', input_column='z,x')
    same_rows(found_rows(chosen), of_classes([one[:, [2, 0]] for one in SEQUENCES]))


def test_rows_of_a_sequence_need_not_be_together_and_the_split_is_theirs(tmp_path):
    lines = ['run,x,y,label,set', *(f'{i % 8},{i}.5,0,{"a" if i % 2 else "b"},{"test" if i % 8 > 5 else "train"}' for i in range(24))]
    (tmp_path / 'a.csv').write_text('\n'.join(lines))
    found = load(tmp_path / 'a.csv', format='steps', sequence_column='run', held_out=0.4)
    assert [len(rows) for rows in found.rows.values()] == [4, 2, 2] and {len(row['inputs']) for row in found.rows['train']} == {3}


def test_lists_of_json_are_the_same(tmp_path):
    write_jsonl(tmp_path / 'a.jsonl')
    same_rows(found_rows(load(tmp_path / 'a.jsonl')), of_classes())
    (tmp_path / 'b.jsonl').write_text(''.join(json.dumps(dict(sequence=[i, 2.5], label=i % 2)) + '\n' for i in range(8)))
    same_rows(found_rows(load(tmp_path / 'b.jsonl')), sorted(([[i], [2.5]], i % 2) for i in range(8)))


def test_numbers_and_labels_of_steps_are_targets_too(tmp_path):
    targets = [float(i) / 4 for i in range(16)]
    write_steps(tmp_path / 'number.csv', targets=targets, name='target')
    assert sorted(t for _, t in found_rows(load(tmp_path / 'number.csv', 'regression', format='steps'))) == targets
    tags = [['AB'[int(step[0] > 0)] for step in one] for one in SEQUENCES]
    write_steps(tmp_path / 'tags.csv', targets=tags)
    write_jsonl(tmp_path / 'tags.jsonl', targets=tags, name='tags')
    expected = sorted((one.tolist(), ['AB'.index(tag) for tag in labels]) for one, labels in zip(SEQUENCES, tags))
    same_rows(found_rows(load(tmp_path / 'tags.csv', 'tagging', format='steps')), expected)
    same_rows(found_rows(load(tmp_path / 'tags.jsonl', 'tagging')), expected)


def test_a_row_a_sequence(tmp_path):
    short = [one[:, :1] for one in SEQUENCES]
    cells = [[label, *one[:, 0], *[''] * (6 - len(one))] for one, label in zip(short, LABELS)]
    (tmp_path / 'a.csv').write_text('\n'.join(','.join(map(str, row)) for row in cells))
    same_rows(found_rows(load(tmp_path / 'a.csv', format='series')), of_classes(short))
    last = [['t0', 't1', 't2', 't3', 't4', 't5', 'label'], *([*row[1:], row[0]] for row in cells)]
    (tmp_path / 'b.tsv').write_text('\n'.join('\t'.join(map(str, row)) for row in last))
    same_rows(found_rows(load(tmp_path / 'b.tsv', format='series')), of_classes(short))


def test_arrays(tmp_path):
    full = np.stack([np.resize(one, (6, D)) for one in SEQUENCES])
    lengths = np.array(list(map(len, SEQUENCES)))
    np.savez(tmp_path / 'a.npz', inputs=full, labels=np.array(LABELS), lengths=lengths)
    same_rows(found_rows(load(tmp_path / 'a.npz')), of_classes([one[:n] for one, n in zip(full, lengths)]))
    np.savez(tmp_path / 'b.npz', x_train=full[:12], y_train=np.array(LABELS[:12]), x_test=full[12:], y_test=np.array(LABELS[12:]))
    found = load(tmp_path / 'b.npz')
    same_rows(found_rows(found), of_classes(full))
    assert len(found.rows['test']) == 4


def test_inputs_are_normalised_by_the_training_part(tmp_path):
    write_steps(tmp_path / 'a.csv')
    found = load(tmp_path / 'a.csv', format='steps')
    every = np.concatenate([row['inputs'] for row in found.rows['train']])
    np.testing.assert_allclose(every.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(every.std(axis=0), 1, atol=1e-5)
    again = load(tmp_path / 'a.csv', format='steps')  # from the cache
    assert again.facts() == found.facts()


GOOD = 'id,x,y,label\na,1,2,p\na,3,4,p\nb,1,2,q\nb,3,4,q\nc,1,2,p\nc,1,2,p\nd,1,2,q\n'
BAD_STEPS = {
    'e,nan,2,p': (9, 'a number of the input is not finite: x: .nan'),
    'e,1,inf,p': (9, 'a number of the input is not finite: y: .inf'),
    'e,1,1e60,p': (9, 'a number of the input is not finite: y: .1e60'),
    'e,1,,p': (9, "a cell of the input is no number: y: ''"),
    'e,1,two,p': (9, "a cell of the input is no number: y: 'two'"),
    'e,1,2': (9, 'has 3 columns and 4 are needed'),
    'e,1,2,p,7': (9, 'has 5 columns and 4 are needed'),
    'e,1,2,p\ne,3,4,q': (9, "the target changes within a sequence: 'p' and 'q'"),
    'e,1,2,': (9, 'the label is empty'),
}


@pytest.mark.parametrize('lines', BAD_STEPS)
def test_a_step_that_makes_no_sense_stops_or_its_sequence_is_counted(tmp_path, lines):
    number, sentence = BAD_STEPS[lines]
    (tmp_path / 'a.csv').write_text(GOOD + lines + '\n')
    with pytest.raises(FieldError, match=f'a.csv.*: line {number}: {re.escape(sentence)}|a.csv.*: line {number}: {sentence}'):
        load(tmp_path / 'a.csv', format='steps')
    found = load(tmp_path / 'a.csv', format='steps', on_error='skip')
    count = sum(map(len, found.rows.values()))
    assert f'skipped 1: {sentence.partition(":")[0]}' in found.report and count == (3 if 'columns' in sentence else 4)


BAD_JSON = {
    '[[1, 2], [3]]': 'the steps of a sequence have different numbers of features: step 2 has 1, step 1 has 2',
    '[[1, 2], []]': 'the steps of a sequence have different numbers of features',
    '[[], []]': 'the steps of a sequence have different numbers of features',
    '[[1, NaN]]': 'a number of the input is not finite: step 1: nan',
    '[[1, Infinity]]': 'a number of the input is not finite',
    '[[1, 1e99]]': 'a number of the input is not finite',
    '[[1, "2"]]': "a step of the input has something else than numbers: step 1: '2'",
    '[[1, true]]': 'a step of the input has something else than numbers',
    '[[1, [2]]]': 'a step of the input has something else than numbers',
    '[[1, 2, 3]]': 'has another number of features than the first sequence: 3 and 2',
    '[]': 'the input is empty',
}


@pytest.mark.parametrize('value', BAD_JSON)
def test_a_list_that_is_no_sequence_stops_or_is_counted(tmp_path, value):
    lines = [f'{{"sequence": [[{i}, 2]], "label": "{"ab"[i % 2]}"}}' for i in range(6)]
    (tmp_path / 'a.jsonl').write_text('\n'.join([*lines, f'{{"sequence": {value}, "label": "a"}}']))
    with pytest.raises(FieldError, match=f'line 7: {re.escape(BAD_JSON[value])}'):
        load(tmp_path / 'a.jsonl')
    found = load(tmp_path / 'a.jsonl', on_error='skip')
    assert f'skipped 1: {BAD_JSON[value].partition(":")[0]}' in found.report and sum(map(len, found.rows.values())) == 6


def timed(times, values=None):
    values = range(len(times)) if values is None else values
    return 'date,y\n' + ''.join(f'{time},{value}\n' for time, value in zip(times, values))


@pytest.mark.parametrize('times, wrong', [
    ([0, 1, 2, 3, 2.5, 4], 6), (['2020-01-31', '2020-02-01', '2020-01-30', '2020-03-01'], 4),
    (['2020-10-25 02:30', '2020-10-25 02:00', '2020-10-25 03:00', '2020-10-26'], None),  # clocks were put back
    (['2020-10-25T02:30+02:00', '2020-10-25T02:00+01:00', '2020-10-26', '2020-10-26'], None),
    (['b', 'a', 'c', 'a'], None)])
def test_rows_of_a_sequence_are_in_the_order_of_their_times(tmp_path, times, wrong):
    (tmp_path / 'a.csv').write_text(timed(times))
    read = lambda **changes: data.load(tiny_config('reader', task='forecasting', data=dict(
        source=f'file:{tmp_path}/a.csv', sequence_length=2, held_out=0.5, **changes)).data, 'forecasting')
    if wrong is None:
        assert read().splits == ('train', 'validation')
        return
    with pytest.raises(FieldError, match=f'a.csv.*line {wrong}: the time goes back within a sequence: '):
        read()
    with pytest.raises(FieldError, match=f'skipped 1: the time goes back within a sequence, in line {wrong}'):
        read(on_error='skip')


def test_labels_of_steps_are_as_many_as_steps_or_padded_as_they_are(tmp_path):
    inputs, labels = np.zeros((8, 6, 2)), np.resize([0, 1], (8, 6))

    def read(labels, **arrays):
        np.savez(tmp_path / 'a.npz', inputs=inputs, labels=labels, **arrays)
        return load(tmp_path / 'a.npz', 'tagging')

    assert len(read(labels).rows['train'][0]['targets']) == 6
    assert len(read(labels, lengths=np.full(8, 4)).rows['train'][0]['targets']) == 4
    for columns in (4, 9):
        with pytest.raises(FieldError, match=f'inputs: sequence 0: .* not as many: {columns} labels, 6 steps'):
            read(np.resize([0, 1], (8, columns)))


def test_arrays_that_are_not_read_are_named_and_a_malformed_sequence_is_counted(tmp_path):
    inputs = np.ones((16, 6))
    inputs[[2, 7], 3] = np.nan
    inputs[4, 0] = 1e300
    labels = np.array(LABELS)
    np.savez(tmp_path / 'a.npz', x=inputs, y=labels, x_test=inputs[:2], y_test=labels[:2], notes=np.zeros(3))
    found = load(tmp_path / 'a.npz', on_error='skip')
    assert [len(rows) for rows in found.rows.values()] == [12, 1, 2]
    assert ('a.npz: 13 sequences (skipped 3: has a number that is not finite, in sequence 2, 4, 7), '
            '1 array not read: notes') in found.report
    np.savez(tmp_path / 'a.npz', x=np.full((16, 6), np.nan), y=np.array(LABELS))
    with pytest.raises(FieldError, match='a.npz: x: no sequence is left; skipped 16: has a number that'):
        load(tmp_path / 'a.npz', on_error='skip')


BAD_ARRAYS = {
    'inputs: sequence 2: has a number that is not finite: in step 4': dict(inputs=np.where(np.arange(16 * 6).reshape(16, 6) == 15, np.nan, 1.0)),
    'inputs: has the shape 16, and sequences are [N, T] or [N, T, D]': dict(inputs=np.zeros(16)),
    'lengths: are not one of 1 to 6': dict(lengths=np.full(16, 7)),
    'labels: has 3 labels for 16 sequences': dict(labels=np.array(['a', 'b', 'a'])),
}


@pytest.mark.parametrize('sentence', BAD_ARRAYS)
def test_an_array_that_makes_no_sense_stops(tmp_path, sentence):
    np.savez(tmp_path / 'a.npz', **{**dict(inputs=np.zeros((16, 6)), labels=np.array(LABELS)), **BAD_ARRAYS[sentence]})
    with pytest.raises(FieldError, match=re.escape(sentence)):
        load(tmp_path / 'a.npz')


def test_columns_that_are_not_there(tmp_path):
    (tmp_path / 'a.csv').write_text(GOOD)
    for changes, sentence in ((dict(sequence_column='ix'), "data.sequence_column='ix': .*a.csv has no such column"),
                              (dict(input_column='x,w'), "data.input_column='x,w': .*a.csv has no column 'w'"),
                              (dict(target_column='lable'), "did you mean 'label'")):
        with pytest.raises(FieldError, match=sentence):
            load(tmp_path / 'a.csv', format='steps', **changes)
    with pytest.raises(FieldError, match='data.sequence_column=.*: means nothing for the format csv'):
        load(tmp_path / 'a.csv', sequence_column='id')
