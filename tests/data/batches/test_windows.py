"""Batches are pure functions of (seed, step), however many processes load them; evaluation counts every token once."""

import itertools

import numpy as np
import pytest

from seqjax import data
from seqjax.errors import FieldError

T = 5
TOKENS = np.random.default_rng(0).permutation(103).astype(np.int32)  # all different: a token says where it stood


def training(**changes):
    return data.training_batches(TOKENS, **dict(dict(batch_size=4, sequence_length=T, seed=3), **changes))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def concatenated(batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def starts(batch):
    """Where in the text every row of a batch begins."""
    place = {int(token): i for i, token in enumerate(TOKENS)}
    return [place[int(row[0])] for row in batch['inputs']]


@pytest.mark.parametrize('step', [0, 1, 7, 1000, 10 ** 6])
def test_a_batch_depends_on_seed_and_step_alone(step):
    one, other = training(), training()
    other[step + 1], other[0]  # what was asked for before does not matter
    assert same(one[step], other[step])
    assert not same(one[step], training(seed=4)[step])
    assert not same(one[step], one[step + 1])


@pytest.mark.parametrize('step', [0, 3, 29])
@pytest.mark.parametrize('processes', [1, 2, 4])
def test_the_rows_of_all_processes_are_the_batch_of_one(processes, step):
    parts = [training(process=process, processes=processes)[step] for process in range(processes)]
    assert all(len(part['inputs']) == 4 // processes for part in parts)
    assert same(concatenated(parts), training()[step])


def test_targets_are_the_tokens_after_the_inputs():
    batch = training()[2]
    assert batch['inputs'].shape == batch['targets'].shape == batch['weights'].shape == (4, T)
    for row, start in enumerate(starts(batch)):
        np.testing.assert_array_equal(batch['inputs'][row], TOKENS[start:start + T])
        np.testing.assert_array_equal(batch['targets'][row], TOKENS[start + 1:start + T + 1])
    assert (batch['weights'] == 1).all()


def test_an_epoch_shows_every_window_once_and_the_next_in_another_order():
    # 20 windows, 5 batches of 4. A window is moved by less than its length, so its start tells which it was; the last
    # is stopped by the end of the text.
    batches = training()
    epochs = [[min(start, 95 + T - 1) // T for step in range(5 * epoch, 5 * epoch + 5) for start in starts(batches[step])]
              for epoch in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(20))
    assert epochs[0] != epochs[1] != epochs[2]


def test_over_the_epochs_a_window_begins_at_every_offset():
    batches = training()
    offsets = {start % T for step in range(50) for start in starts(batches[step]) if start < 95}
    assert offsets == set(range(T))


@pytest.mark.parametrize('step', [0, 1, 13])
def test_prefetching_from_a_step_gives_the_batches_from_there(step):
    dataset = training()
    ahead = list(itertools.islice(data.prefetched(dataset, step), 12))
    assert all(same(batch, dataset[step + i]) for i, batch in enumerate(ahead))


@pytest.mark.parametrize('length', [6, 7, 10, 11, 20, 21, 22, 103])  # one window, whole windows, ragged tails, full batches
@pytest.mark.parametrize('processes', [1, 2, 4])
def test_evaluation_counts_every_target_exactly_once(length, processes):
    tokens = TOKENS[:length]
    parts = [data.evaluation_batches(tokens, batch_size=4, sequence_length=T, process=process, processes=processes)
             for process in range(processes)]
    steps = len(parts[0])
    assert all(len(part) == steps for part in parts)  # or processes would wait for each other without end
    whole = concatenated([part[step] for step in range(steps) for part in parts])
    assert len(whole['inputs']) % 4 == 0
    counted = whole['weights'] == 1
    assert set(np.unique(whole['weights'])) <= {0.0, 1.0}
    assert whole['targets'][counted].tolist() == tokens[1:].tolist()
    assert whole['inputs'][counted].tolist() == tokens[:-1].tolist()


def test_evaluation_is_the_same_batches_for_any_number_of_processes():
    one = data.evaluation_batches(TOKENS, batch_size=4, sequence_length=T)
    two = [data.evaluation_batches(TOKENS, batch_size=4, sequence_length=T, process=p, processes=2) for p in range(2)]
    assert all(same(one[step], concatenated([part[step] for part in two])) for step in range(len(one)))


@pytest.mark.parametrize('limit, batches', [(0, 6), (1, 1), (2, 2), (100, 6)])
@pytest.mark.parametrize('processes', [1, 2])
def test_evaluation_stops_after_so_many_batches(limit, batches, processes):
    limited = data.evaluation_batches(TOKENS, batch_size=4, sequence_length=T, limit=limit, processes=processes)
    assert len(limited) == batches
    assert same(limited[0], data.evaluation_batches(TOKENS, batch_size=4, sequence_length=T, processes=processes)[0])


@pytest.mark.parametrize('make, which', [
    (lambda tokens: data.training_batches(tokens, batch_size=1, sequence_length=T, seed=0), 'training'),
    (lambda tokens: data.evaluation_batches(tokens, batch_size=1, sequence_length=T), 'held-out'),
], ids=['training', 'evaluation'])
def test_a_text_shorter_than_a_window_is_refused(make, which):
    with pytest.raises(FieldError) as caught:
        make(TOKENS[:T])
    assert str(caught.value) == (f'data.sequence_length=5: the {which} text has only 5 tokens; '
                                 'use a longer text or a shorter sequence')
    assert make(TOKENS[:T + 1])[0]['inputs'].tolist() == [TOKENS[:T].tolist()]
