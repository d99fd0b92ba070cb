"""Generated sets against what the papers say of them, and as pure functions of (seed, step, row)."""

import math

import numpy as np
import pytest

from seqjax import data
from tests.tiny import tiny_config

T, B = 12, 4
SOURCES = [name for name in data.SOURCES if data.is_endless(name)]


def load(source, length=T, held_out_rows=10):
    options = tiny_config(data=dict(source=source, sequence_length=length, held_out_rows=held_out_rows)).data
    return data.load(options, data.default_task(source))


def training(source, **changes):
    return load(source).training_batches(**dict(dict(batch_size=B, seed=3), **changes))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def concatenated(batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


# ------------------------------------------------------------------------------------------------ the two tasks

@pytest.mark.parametrize('length', [2, 3, 7, 200])
def test_the_target_of_adding_is_the_sum_of_the_two_marked_values_one_in_each_half(length):
    batch = concatenated([load('adding', length).training_batches(batch_size=B, seed=0)[step] for step in range(30)])
    places = set()
    for row, target in zip(batch['inputs'], batch['targets']):
        values, markers = row.T
        assert sorted(markers)[-2:] == [1, 1] and markers.sum() == 2
        first, second = np.flatnonzero(markers)
        assert first < length // 2 <= second
        assert target == pytest.approx(float(values[first]) + float(values[second]), abs=1e-6)
        assert 0 <= values.min() and values.max() < 1
        places |= {first, second}
    assert len(places) > min(length, 40) * 0.9  # every place is marked now and then
    assert batch['inputs'].shape == (30 * B, length, 2) and batch['inputs'].dtype == batch['targets'].dtype == np.float32
    assert (batch['weights'] == 1).all()


def test_always_answering_1_to_adding_has_an_error_of_a_sixth():
    targets = np.concatenate([training('adding', batch_size=100)[step]['targets'] for step in range(100)])
    assert np.mean((targets - 1) ** 2) == pytest.approx(1 / 6, rel=0.05)


@pytest.mark.parametrize('length', [1, 2, 30])
def test_copy_shows_ten_letters_and_asks_for_them_after_the_blanks(length):
    batch = load('copy', length).training_batches(batch_size=B, seed=0)[5]
    for inputs, targets, weights in zip(batch['inputs'], batch['targets'], batch['weights']):
        letters = inputs[:10].tolist()
        assert all(0 <= letter < 8 for letter in letters)
        assert inputs.tolist() == letters + [8] * (length - 1) + [9] + [8] * 10
        assert targets.tolist() == [8] * (length + 10) + letters
        assert weights.tolist() == [0] * (length + 10) + [1] * 10
    assert batch['inputs'].dtype == batch['targets'].dtype == np.int32
    assert load('copy', length).for_model()['vocabulary'] == 10 and load('copy', length).steps == length + 20


def test_without_memory_copy_costs_log_8_a_letter_which_is_what_the_paper_states():
    letters = np.concatenate([training('copy', batch_size=100)[step]['inputs'][:, :10].ravel() for step in range(20)])
    shares = np.bincount(letters, minlength=8) / len(letters)
    assert -np.log(shares).mean() == pytest.approx(math.log(8), abs=1e-3)
    counted = load('copy').sample()['weights'].sum()
    assert counted * math.log(8) / (T + 20) == pytest.approx(10 * math.log(8) / (T + 20))


# ------------------------------------------------------------------------------------------------ streams of rows

@pytest.mark.parametrize('source', SOURCES)
@pytest.mark.parametrize('step', [0, 7, 10 ** 9])
def test_a_batch_depends_on_seed_and_step_alone(source, step):
    one, other = training(source), training(source)
    other[step + 1], other[0]
    assert same(one[step], other[step])
    assert not same(one[step], training(source, seed=4)[step])
    assert not same(one[step], one[step + 1])


@pytest.mark.parametrize('source', SOURCES)
@pytest.mark.parametrize('processes', [2, 4])
def test_the_rows_of_all_processes_are_the_batch_of_one(source, processes):
    whole = load(source)
    for step in (0, 3):
        parts = [training(source, process=process, processes=processes)[step] for process in range(processes)]
        assert same(concatenated(parts), training(source)[step])
    parts = [whole.evaluation_batches(batch_size=B, process=process, processes=processes) for process in range(processes)]
    for step, batch in enumerate(whole.evaluation_batches(batch_size=B)):
        assert same(concatenated([part[step] for part in parts]), batch)


@pytest.mark.parametrize('source', SOURCES)
@pytest.mark.parametrize('rows, batches', [(1, 1), (4, 1), (10, 3)])
def test_evaluation_counts_each_held_out_row_once(source, rows, batches):
    evaluation = load(source, held_out_rows=rows).evaluation_batches(batch_size=B)
    assert len(evaluation) == batches
    whole = concatenated(list(evaluation))
    counted = whole['weights'].reshape(batches * B, -1).max(axis=1) == 1
    assert counted.tolist() == [True] * rows + [False] * (batches * B - rows)
    assert len({row.tobytes() for row in whole['inputs'][counted]}) == rows
    assert len(load(source, held_out_rows=rows).evaluation_batches(batch_size=B, limit=1)) == 1


@pytest.mark.parametrize('source', SOURCES)
def test_no_held_out_row_is_trained_on_whatever_the_seed(source):
    held_out = {row.tobytes() for batch in load(source).evaluation_batches(batch_size=B) for row in batch['inputs']}
    for seed in (0, 1, 2):
        for step in range(20):
            assert not held_out & {row.tobytes() for row in training(source, seed=seed)[step]['inputs']}


@pytest.mark.parametrize('source', SOURCES)
def test_a_set_knows_itself_again(source):
    facts = load(source).facts()
    assert facts['sha256'] == load(source, held_out_rows=3).facts()['sha256']  # more held-out rows are no other set
    assert facts == load(source).facts()
    assert facts['sha256'] != load(source, length=T + 1).facts()['sha256']
    assert (facts['source'], facts['length'], facts['held_out_rows']) == (source, T, 10)
    sample = load(source).sample()
    assert all(sample[name].shape == (1, *rows.shape[1:]) and sample[name].dtype == rows.dtype
               for name, rows in training(source)[0].items())
    assert str(load(source)) == f'rows of {len(sample["inputs"][0])} steps generated without end, 10 held out'


@pytest.mark.parametrize('source, task', [
    ('adding', 'regression'), ('copy', 'language_model'), ('python', 'language_model')])
def test_a_source_says_what_it_is_for(source, task):
    assert data.default_task(source) == task
