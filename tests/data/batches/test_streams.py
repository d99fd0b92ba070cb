"""Parallel streams: rows go on from batch to batch, and evaluation counts every token once."""

import numpy as np
import pytest

from seqjax import data
from seqjax.errors import FieldError

B, T = 4, 5
TOKENS = np.random.default_rng(0).permutation(103).astype(np.int32)  # all different: a token says where it stood
PLACE = {int(token): i for i, token in enumerate(TOKENS)}


def training(**changes):
    return data.training_streams(TOKENS, **dict(dict(batch_size=B, sequence_length=T, seed=3), **changes))


def first_places(batch):
    return [PLACE[int(row[0])] for row in batch['inputs']]


def concatenated(batches):
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_each_row_goes_on_where_it_ended_until_the_next_epoch_begins():
    # 102 predictions, 25 a stream, 5 windows of 5 an epoch and nothing left over.
    for step in range(15):
        batch = training()[step]
        window = step % 5
        assert first_places(batch) == [25 * b + T * window for b in range(B)]
        assert batch['starts'].tolist() == [float(window == 0)] * B and batch['starts'].dtype == np.float32
        for row, start in enumerate(first_places(batch)):
            np.testing.assert_array_equal(batch['inputs'][row], TOKENS[start:start + T])
            np.testing.assert_array_equal(batch['targets'][row], TOKENS[start + 1:start + T + 1])
        assert (batch['weights'] == 1).all()


def test_where_windows_do_not_fit_the_first_place_is_drawn_anew_each_epoch():
    batches = training(sequence_length=7)  # 3 windows of 7 in a stream of 25: 4 left over
    offsets = [first_places(batches[3 * epoch])[0] for epoch in range(40)]
    assert set(offsets) == set(range(5))
    for epoch, offset in enumerate(offsets[:5]):
        for window in range(3):
            assert first_places(batches[3 * epoch + window]) == [25 * b + offset + 7 * window for b in range(B)]
    assert offsets != [first_places(training(sequence_length=7, seed=4)[3 * epoch])[0] for epoch in range(40)]


@pytest.mark.parametrize('processes', [2, 4])
@pytest.mark.parametrize('step', [0, 1, 13])
def test_the_rows_of_all_processes_are_the_batch_of_one(processes, step):
    parts = [training(process=process, processes=processes)[step] for process in range(processes)]
    assert same(concatenated(parts), training()[step])


@pytest.mark.parametrize('length', [6, 7, 10, 21, 22, 40, 103])
@pytest.mark.parametrize('processes', [1, 2])
def test_evaluation_counts_every_target_once_and_reads_on(length, processes):
    tokens = TOKENS[:length]
    parts = [data.evaluation_streams(tokens, batch_size=B, sequence_length=T, process=process, processes=processes)
             for process in range(processes)]
    batches = [concatenated([part[step] for part in parts]) for step in range(len(parts[0]))]
    assert [batch['starts'].tolist() for batch in batches] == [[float(step == 0)] * B for step in range(len(batches))]
    read = [np.concatenate([batch['inputs'][b][batch['weights'][b] == 1] for batch in batches]) for b in range(B)]
    asked = [np.concatenate([batch['targets'][b][batch['weights'][b] == 1] for batch in batches]) for b in range(B)]
    assert np.concatenate(read).tolist() == tokens[:-1].tolist()
    assert np.concatenate(asked).tolist() == tokens[1:].tolist()
    for batch in batches:  # what counts stands at the front of its row, so that nothing in between disturbs the state
        assert (np.diff(batch['weights'], axis=1) <= 0).all()


def test_evaluation_stops_after_so_many_batches():
    assert len(data.evaluation_streams(TOKENS, batch_size=B, sequence_length=T)) == 6
    assert len(data.evaluation_streams(TOKENS, batch_size=B, sequence_length=T, limit=2)) == 2


def test_a_text_that_gives_no_row_a_window_is_refused():
    with pytest.raises(FieldError) as caught:
        data.training_streams(TOKENS[:20], batch_size=B, sequence_length=T, seed=0)
    assert str(caught.value) == ('data.sequence_length=5: the training text has only 20 tokens, which gives each of the 4 rows '
                                 'a stream of 4; use a longer text, a smaller batch or a shorter sequence')
    assert data.training_streams(TOKENS[:21], batch_size=B, sequence_length=T, seed=0)[0]['inputs'].shape == (B, T)
