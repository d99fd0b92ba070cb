"""Ragged rows: the buckets are the best there are, training drops nothing, evaluation counts every row once."""

import collections
import itertools

import numpy as np
import pytest

from seqjax import data
from seqjax.data.batches import ragged as batching
from seqjax.errors import FieldError

B = 4
LENGTHS = np.random.default_rng(0).integers(1, 14, 41)
LENGTHS[5] = 30  # a bucket that may have this row alone
BUCKETS = (3, 7, 13, 30)


def row(i):
    """Everything says which row it is; inputs are a dict, and the target is a number."""
    steps = LENGTHS[i]
    return dict(inputs=dict(tokens=np.full(steps, i + 1, np.int32), frames=np.full((steps, 2), i + 1, np.float32)),
                targets=np.int32(i + 1), weights=np.float32(1))


def ragged(lengths=LENGTHS, buckets=BUCKETS, batch_size=B, row=row):
    return batching.Ragged(row, lengths, buckets, batch_size)


def numbers(batch):
    return (batch['targets'][batch['lengths'] > 0] - 1).tolist()


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


def joined(batches):
    if isinstance(batches[0], dict):
        return {name: joined([batch[name] for batch in batches]) for name in batches[0]}
    return np.concatenate(batches)


# ------------------------------------------------------------------------------------------------ the plan

def positions(lengths, buckets):
    return sum(min(bucket for bucket in buckets if bucket >= length) for length in lengths)


@pytest.mark.parametrize('seed', range(20))
@pytest.mark.parametrize('shapes', [1, 2, 3, 5, 20])
def test_no_other_buckets_need_fewer_positions(seed, shapes):
    rng = np.random.default_rng(seed)
    lengths = rng.choice(rng.integers(1, 40, 8), rng.integers(1, 60))
    buckets = batching.plan_buckets(lengths, shapes)
    distinct = sorted(set(lengths.tolist()))
    assert len(buckets) <= shapes and buckets[-1] == distinct[-1] and list(buckets) == sorted(set(buckets))
    others = itertools.combinations(distinct[:-1], min(shapes, len(distinct)) - 1)
    assert positions(lengths, buckets) == min(positions(lengths, (*other, distinct[-1])) for other in others)


def test_modes():
    lengths = [5, 2, 2, 9, 5, 0]
    assert batching.bucket_lengths('pad', lengths, 8) == (9,)
    assert batching.bucket_lengths('exact', lengths) == (1, 2, 5, 9)  # a row of no steps takes one
    assert batching.bucket_lengths('bucket', lengths, 2) == batching.plan_buckets(lengths, 2) == (2, 9)
    with pytest.raises(FieldError) as caught:
        batching.bucket_lengths('buckets', lengths)
    assert str(caught.value) == "data.batching='buckets': no such way; did you mean 'bucket'?"


def test_efficiency_counts_padding_and_the_rows_that_fill_up():
    assert batching.efficiency([5, 2, 2, 9], (5, 9)) == 18 / 24
    assert batching.efficiency([5, 2, 2, 9], (5, 9), batch_size=2) == 18 / (4 * 5 + 2 * 9)
    assert batching.efficiency([5, 2, 2, 9], (2, 5, 9)) == 1


def test_a_row_that_fits_no_bucket_is_refused():
    with pytest.raises(ValueError, match='a row has 30 steps, and the longest bucket 13'):
        ragged(buckets=(7, 13)).training(0)


# ------------------------------------------------------------------------------------------------ training

@pytest.mark.parametrize('batch_size', [1, 3, 4, 50])
@pytest.mark.parametrize('mode, shapes', [('bucket', 3), ('pad', 1), ('exact', 1)])
def test_rows_are_trained_on_equally_often_and_none_is_made_up(mode, shapes, batch_size):
    buckets = batching.bucket_lengths(mode, LENGTHS, shapes)
    dataset, epochs = ragged(buckets=buckets, batch_size=batch_size).training(3), 12
    sizes = collections.Counter(min(bucket for bucket in buckets if bucket >= length) for length in LENGTHS)
    seen, batches = collections.Counter(), collections.Counter()
    for step in range(sum(epochs * size // batch_size for size in sizes.values())):
        batch = dataset[step]
        length = batch['inputs']['tokens'].shape[1]
        assert length in buckets and len(numbers(batch)) == batch_size
        batches[length] += 1
        seen.update(numbers(batch))
    assert dict(+batches) == {length: epochs * size // batch_size for length, size in sizes.items()
                              if epochs * size // batch_size}
    for i, length in enumerate(LENGTHS):  # the last of a bucket's batches may not have been full yet
        size = sizes[min(bucket for bucket in buckets if bucket >= length)]
        assert epochs - -(-batch_size // size) <= seen[i] <= epochs


def test_padding_is_zeros_and_lengths_say_where_it_begins():
    for step in range(30):
        batch = ragged().training(1)[step]
        assert batch['lengths'].dtype == np.int32 and batch['targets'].dtype == np.int32
        for b, i in enumerate(numbers(batch)):
            steps = batch['lengths'][b]
            assert steps == LENGTHS[i]
            for array in batch['inputs'].values():
                assert (array[b, :steps] == i + 1).all() and (array[b, steps:] == 0).all()
        assert batch['inputs']['tokens'].dtype == np.int32
        assert batch['inputs']['frames'].shape == (*batch['inputs']['tokens'].shape, 2)


def test_short_and_long_batches_are_mixed_anew_every_epoch():
    dataset = ragged(batch_size=1).training(0)
    epochs = [[numbers(dataset[step])[0] for step in range(41 * epoch, 41 * epoch + 41)] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(41)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert all(len(set(LENGTHS[epoch[:10]] > 7)) == 2 for epoch in epochs)


def test_rows_are_in_another_order_every_epoch():
    dataset = ragged(buckets=(30,), batch_size=41).training(0)  # a batch is an epoch
    epochs = [numbers(dataset[step]) for step in range(3)]
    assert all(sorted(epoch) == list(range(41)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize('step', [0, 1, 9, 1000, 10 ** 6, 10 ** 12])
def test_a_batch_depends_on_seed_and_step_alone(step):
    one, other = ragged().training(3), ragged().training(3)
    other[step + 1], other[0]  # what was asked for before does not matter
    assert same(one[step], other[step])
    assert not same(one[step], ragged().training(4)[step])


def test_every_step_is_of_one_epoch():
    """The search for a step's epoch against counting."""
    order = batching._Order([np.arange(3), np.arange(10), np.arange(0), np.arange(1)], 4, 0)
    counted = [pair for epoch in range(50) for pair in order._mixed(epoch)]
    for step, (k, number) in enumerate(counted):
        found, rows = order[step]
        assert found == k and rows.tolist() == order._rows(k, number).tolist()


@pytest.mark.parametrize('seed', range(8))
def test_every_step_is_of_one_epoch_with_a_batch_size_for_every_bucket(seed):
    """The same for random buckets and batch sizes, against a stream for every bucket that is cut by hand."""
    rng = np.random.default_rng(seed)
    members = [np.arange(rng.integers(0, 12)) for _ in range(rng.integers(1, 5))] + [np.arange(rng.integers(1, 9))]
    sizes = tuple(rng.integers(1, 15, len(members)).tolist())
    order, epochs, steps = batching._Order(members, sizes, seed), 30, itertools.count()
    streams = [[order._permuted(k, epoch).tolist() for epoch in range(epochs)] for k in range(len(members))]
    assert all(sorted(epoch) == rows.tolist() for stream, rows in zip(streams, members) for epoch in stream)
    cut = [[rows[i:i + size] for i in range(0, len(rows), size)]
           for rows, size in zip(map(list, map(itertools.chain.from_iterable, streams)), sizes)]
    for epoch in range(epochs):
        due = [(k, batch) for k, (rows, size) in enumerate(zip(members, sizes))
               for batch in cut[k][epoch * len(rows) // size:(epoch + 1) * len(rows) // size]]
        got = [order[next(steps)] for _ in due]
        assert sorted((k, rows.tolist()) for k, rows in got) == sorted(due)


SIZES = (6, 4, 2, 8)  # of a batch of each of BUCKETS; eight is more than there are rows of thirty steps


def test_one_batch_size_is_the_same_as_one_for_every_bucket():
    one, other = ragged().training(3), ragged(batch_size=(B,) * len(BUCKETS)).training(3)
    assert all(same(one[step], other[step]) for step in range(60))
    assert all(map(same, ragged().evaluation(), ragged(batch_size=(B,) * len(BUCKETS)).evaluation()))


def test_a_batch_size_for_every_bucket_drops_no_row_and_makes_none_up():
    dataset, epochs = ragged(batch_size=SIZES).training(3), 24  # whole batches of every bucket after so many
    members = [np.flatnonzero(np.searchsorted(BUCKETS, LENGTHS) == k) for k in range(len(BUCKETS))]
    assert all(epochs * len(rows) % size == 0 for rows, size in zip(members, SIZES))
    seen, batches = collections.Counter(), collections.Counter()
    for step in range(sum(epochs * len(rows) // size for rows, size in zip(members, SIZES))):
        batch = dataset[step]
        k = BUCKETS.index(batch['inputs']['tokens'].shape[1])
        assert len(numbers(batch)) == len(batch['lengths']) == SIZES[k] and set(numbers(batch)) <= set(members[k].tolist())
        seen.update(numbers(batch))
        batches[k] += 1
    assert seen == {i: epochs for i in range(len(LENGTHS))}
    assert batches == {k: epochs * len(rows) // size for k, (rows, size) in enumerate(zip(members, SIZES))}


@pytest.mark.parametrize('which', ['training', 'evaluation'])
def test_processes_share_batches_of_every_size(which):
    make = (lambda **part: ragged(batch_size=SIZES).training(3, **part)) if which == 'training' else (
        ragged(batch_size=SIZES).evaluation)
    parts = [make(process=process, processes=2) for process in range(2)]
    for step in range(min(40, len(parts[0]))):
        assert same(joined([part[step] for part in parts]), make()[step])


def test_evaluation_in_batches_of_every_size_has_every_row_once():
    dataset = ragged(batch_size=SIZES).evaluation()
    batches = [dataset[step] for step in range(len(dataset))]
    assert sorted(i for batch in batches for i in numbers(batch)) == list(range(len(LENGTHS)))
    assert {(batch['inputs']['tokens'].shape[1], len(batch['lengths'])) for batch in batches} == set(zip(BUCKETS, SIZES))


def test_arrays_are_filled_up_to_lengths_of_their_own():
    two = lambda i: dict(inputs=np.full(LENGTHS[i], i + 1, np.int32), targets=np.full(LENGTHS[i] // 2, i + 1, np.int32))
    filled = tuple(dict(inputs=bucket, targets=bucket // 2 + 1) for bucket in BUCKETS)
    dataset = batching.Ragged(two, LENGTHS, BUCKETS, B, filled).training(0)
    for step in range(20):
        batch = dataset[step]
        assert batch['targets'].shape[1] == batch['inputs'].shape[1] // 2 + 1
        for inputs, targets, length in zip(batch['inputs'], batch['targets'], batch['lengths']):
            assert (targets != 0).tolist() == [t < length // 2 for t in range(len(targets))]
            assert (inputs != 0).tolist() == [t < length for t in range(len(inputs))]


@pytest.mark.parametrize('processes', [2, 4])
@pytest.mark.parametrize('which', ['training', 'evaluation'])
def test_the_rows_of_all_processes_are_the_batch_of_one(processes, which):
    make = (lambda **part: ragged().training(3, **part)) if which == 'training' else ragged().evaluation
    parts = [make(process=process, processes=processes) for process in range(processes)]
    for step in range(min(40, len(parts[0]))):
        assert all(len(part[step]['lengths']) == B // processes for part in parts)
        assert same(joined([part[step] for part in parts]), make()[step])


@pytest.mark.parametrize('step', [0, 13])
def test_prefetching_from_a_step_gives_the_batches_from_there(step):
    dataset = ragged().training(0)
    ahead = itertools.islice(data.prefetched(dataset, step), 12)
    assert all(same(batch, dataset[step + i]) for i, batch in enumerate(ahead))


# ------------------------------------------------------------------------------------------------ evaluation

@pytest.mark.parametrize('batch_size', [1, 4, 50])
@pytest.mark.parametrize('buckets', [(30,), BUCKETS, (3, 20, 25, 30)])  # no row is longer than 20 and fits into 25
def test_evaluation_has_every_row_once_and_fills_up_with_nothing(buckets, batch_size):
    dataset = ragged(buckets=buckets, batch_size=batch_size).evaluation()
    batches = [dataset[step] for step in range(len(dataset))]
    assert sorted(i for batch in batches for i in numbers(batch)) == list(range(len(LENGTHS)))
    computed = sum(batch['inputs']['tokens'].size for batch in batches)
    assert LENGTHS.sum() / computed == batching.efficiency(LENGTHS, buckets, batch_size)
    for batch in batches:
        filler = batch['lengths'] == 0
        assert (batch['weights'] == ~filler).all() and (batch['targets'][filler] == 0).all()
        assert (batch['inputs']['tokens'][filler] == 0).all() and (batch['inputs']['frames'][filler] == 0).all()


def test_evaluation_says_which_rows_it_has_and_is_mixed():
    found = ragged()
    dataset, rows = found.evaluation(), found.evaluation_rows()
    assert [numbers(dataset[step]) for step in range(len(dataset))] == [[i for i in r if i >= 0] for _, r in rows]
    assert len(dataset) == len(rows) and [k for k, _ in rows] != sorted(k for k, _ in rows)


@pytest.mark.parametrize('limit', [1, 3, 1000])
def test_evaluation_stops_after_so_many_batches(limit):
    whole, limited = ragged().evaluation(), ragged().evaluation(limit=limit)
    assert len(limited) == min(limit, len(whole)) and same(limited[0], whole[0])


def test_no_rows_are_no_batches():
    assert len(ragged(lengths=np.zeros(0, int)).evaluation()) == 0
