"""Packed rows: every prediction of every document once, kept apart by segments, in few rows."""

import itertools
import time

import numpy as np
import pytest

from seqjax import data
from seqjax.data.batches import packing
from seqjax.errors import FieldError
from tests.tiny import tiny_config

T, B = 12, 4
RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(0, T + 1, 50)
STARTS = np.cumsum(LENGTHS) - LENGTHS


def sequence(i):
    """Every step of every sequence has a number of its own."""
    steps = np.arange(STARTS[i], STARTS[i] + LENGTHS[i]) + 1
    return dict(inputs=dict(tokens=steps.astype(np.int32), frames=np.stack([steps, -steps], axis=1).astype(np.float32)),
                targets=(2 * steps).astype(np.int32), weights=np.ones(len(steps), np.float32))


def packed(batch_size=B):
    return packing.Packed(sequence, LENGTHS, T, batch_size)


def joined(batches):
    if isinstance(batches[0], dict):
        return {name: joined([batch[name] for batch in batches]) for name in batches[0]}
    return np.concatenate(batches)


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


# ------------------------------------------------------------------------------------------------ which share a row

def fewest_rows(lengths, room):
    """By trying everything."""
    def fits(items, rows):
        if not items:
            return True
        return any(fits(items[1:], rows[:k] + (space - items[0],) + rows[k + 1:])
                   for k, space in enumerate(rows) if space >= items[0] and space not in rows[:k])

    return next(n for n in itertools.count(-(-sum(lengths) // room)) if fits(sorted(lengths)[::-1], (room,) * n))


@pytest.mark.parametrize('seed', range(20))
def test_rows_hold_every_sequence_once_and_are_nearly_as_few_as_can_be(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 11, 12)
    rows = packing.pack(lengths, 10)
    assert sorted(i for row in rows for i in row) == [i for i, length in enumerate(lengths) if length]
    assert all(0 < sum(lengths[i] for i in row) <= 10 for row in rows)
    best = fewest_rows([length for length in lengths.tolist() if length], 10)
    assert best <= len(rows) <= 11 / 9 * best + 1  # Johnson's bound


def test_a_sequence_goes_where_it_leaves_the_least_room():
    assert packing.pack([6, 7, 3, 4, 2], 10) == [(1, 2), (0, 3), (4,)]
    assert packing.pack([8, 5, 2, 2], 10) == [(0, 2), (1, 3)]
    with pytest.raises(ValueError, match='a sequence has 11 steps, and a row 10; cut it first'):
        packing.pack([3, 11], 10)


def test_many_sequences_take_a_moment_and_leave_little_room():
    lengths = np.random.default_rng(0).integers(1, 300, 100_000)
    start = time.process_time()
    rows = packing.pack(lengths, 512)
    assert time.process_time() - start < 5
    assert lengths.sum() / (len(rows) * 512) > 0.999


# ------------------------------------------------------------------------------------------------ batches

def steps_of(batch):
    """The real steps of a batch, its parts checked against each other and against `sequence`."""
    found, segments = [], batch['segments']
    assert segments.dtype == np.int32 and segments.shape == (len(segments), T)
    for b, row in enumerate(segments):
        real = row > 0
        assert (np.diff(real.astype(int)) <= 0).all()  # padding only at the end
        assert row[real].tolist() == sorted(row[real]) and set(row[real]) == set(range(1, row.max() + 1))
        for name in ('targets', 'weights'):
            assert (batch[name][b][~real] == 0).all()
        assert (batch['inputs']['tokens'][b][~real] == 0).all() and (batch['inputs']['frames'][b][~real] == 0).all()
        for number in range(1, row.max() + 1):
            steps = batch['inputs']['tokens'][b][row == number]
            i = int(np.flatnonzero((STARTS == steps[0] - 1) & (LENGTHS > 0))[0])
            expected = sequence(i)
            assert steps.tolist() == expected['inputs']['tokens'].tolist()
            assert batch['targets'][b][row == number].tolist() == expected['targets'].tolist()
            assert batch['inputs']['frames'][b][row == number].tolist() == expected['inputs']['frames'].tolist()
        found += batch['inputs']['tokens'][b][real].tolist()
        assert (batch['weights'][b] == real).all()
    return found


@pytest.mark.parametrize('batch_size', [1, 4, 100])
def test_evaluation_has_every_step_once(batch_size):
    dataset = packed(batch_size).evaluation()
    steps = [step for number in range(len(dataset)) for step in steps_of(dataset[number])]
    assert sorted(steps) == list(range(1, LENGTHS.sum() + 1))
    assert all(len(dataset[number]['segments']) == batch_size for number in range(len(dataset)))
    assert len(packed(batch_size).evaluation(limit=1)) == 1


def test_training_has_every_row_once_an_epoch_in_another_order():
    dataset, rows = packed(1).training(3), len(packed().rows)
    epochs = [[steps_of(dataset[step]) for step in range(rows * epoch, rows * epoch + rows)] for epoch in range(3)]
    for epoch in epochs:
        assert sorted(itertools.chain(*epoch)) == list(range(1, LENGTHS.sum() + 1))
    assert epochs[0] != epochs[1] != epochs[2]
    assert packed().efficiency() == LENGTHS.sum() / (rows * T)


@pytest.mark.parametrize('step', [0, 7, 10 ** 6])
def test_a_batch_depends_on_seed_and_step_alone_for_any_number_of_processes(step):
    whole = packed().training(3)[step]
    steps_of(whole)
    assert same(whole, joined([packed().training(3, process=p, processes=2)[step] for p in range(2)]))
    assert not same(whole, packed().training(4)[step])
    evaluation = [packed().evaluation(process=p, processes=2) for p in range(2)]
    assert all(same(packed().evaluation()[n], joined([part[n] for part in evaluation])) for n in range(len(evaluation[0])))


# ------------------------------------------------------------------------------------------------ documents

@pytest.mark.parametrize('text, documents', [
    ('a\n\nbc\n\n', ['a\n\n', 'bc\n\n']), ('a\n\nbc', ['a\n\n', 'bc']), ('\n\n\n\n', ['\n\n', '\n\n']), ('', []),
    ('ab', ['ab'])])
def test_documents_end_with_their_separator_and_make_up_the_text(text, documents):
    assert packing.split_documents(text, '\n\n') == documents and ''.join(documents) == text


def test_a_document_predicts_every_token_but_its_first_and_is_cut_where_it_is_too_long():
    rng = np.random.default_rng(1)
    sizes = np.array([1, 2, 5, 6, 7, 11, 12, 0, 1, 3, 40])
    tokens = rng.permutation(sizes.sum()).astype(np.int32)
    found = packing.Documents(tokens, np.cumsum(sizes), 5)
    expected = []  # (inputs, targets), by a loop
    for end, size in zip(np.cumsum(sizes), sizes):
        document = tokens[end - size:end].tolist()
        for start in range(0, size - 1, 5):
            piece = document[start:start + 6]
            expected.append((piece[:-1], piece[1:]))
    rows = [found[i] for i in range(len(found.lengths))]
    assert [(row['inputs'].tolist(), row['targets'].tolist()) for row in rows] == expected
    assert found.lengths.tolist() == [len(inputs) for inputs, _ in expected]
    assert found.lengths.sum() == (sizes - 1).clip(0).sum()
    assert found.cut == 4 and all((row['weights'] == 1).all() for row in rows)
    assert len(packing.Documents(tokens[:0], np.zeros(0, int), 5).lengths) == 0


def corpus(tmp_path, text, separator='|', tokenizer='char', **options):
    (tmp_path / 'text.txt').write_text(text, 'utf-8')
    fields = dict(source=f'file:{tmp_path / "text.txt"}', sequence_length=T, documents=separator, tokenizer=tokenizer)
    return data.load_corpus(tiny_config(data={**fields, **options}).data)


def rows_of_an_epoch(corpus):
    """Counted by walking until the first row comes again."""
    dataset = corpus.training_batches(batch_size=1, seed=0)
    rows = [dataset[step]['inputs'].tobytes() + dataset[step]['segments'].tobytes() for step in range(200)]
    return len(set(rows))


@pytest.mark.parametrize('tokenizer', ['char', 'bpe'])
def test_a_corpus_of_documents_has_every_prediction_once_and_says_how_it_is_packed(tokenizer, tmp_path):
    rng = np.random.default_rng(2)
    text = ''.join(''.join(rng.choice(list('abc\n'), rng.integers(0, 30))) + '|' for _ in range(60))
    found = corpus(tmp_path, text, tokenizer=tokenizer, vocabulary=280, held_out=0.3)
    cut = round(0.7 * len(text))
    assert found.tokenizer.decode(found.train) == text[:cut]
    predicted = []
    for document in packing.split_documents(text[cut:], '|'):
        predicted += found.tokenizer.encode(document)[1:].tolist()
    dataset = found.evaluation_batches(batch_size=B)
    batches = [dataset[step] for step in range(len(dataset))]
    assert sorted(np.concatenate([b['targets'][b['weights'] == 1] for b in batches]).tolist()) == sorted(predicted)
    first = found.training_batches(batch_size=B, seed=0)[0]
    assert {name: (array.shape[1:], array.dtype) for name, array in first.items()} == \
        {name: (array.shape[1:], array.dtype) for name, array in found.sample().items()}

    facts, documents = found.facts(), packing.split_documents(text[:cut], '|')
    sizes = np.array([len(found.tokenizer.encode(document)) for document in documents])
    assert facts['train_documents'] == len(documents) and facts['cut_documents'] == (sizes > T + 1).sum() > 0
    assert (sizes - 1).clip(0).sum() / (facts['real_positions'] * T) == pytest.approx(rows_of_an_epoch(found))
    assert f'{len(documents)} + {facts["validation_documents"]} documents' in str(found)
    assert f'{facts["real_positions"]:.2%} of their positions real' in str(found)


def test_a_text_without_a_document_is_refused(tmp_path):
    with pytest.raises(FieldError) as caught:
        corpus(tmp_path, '|' * 50).training_batches(batch_size=B, seed=0)
    assert str(caught.value) == "data.documents='|': the training text has no document of two tokens or more"


def test_paragraphs_leave_less_than_a_hundredth_of_the_positions_empty():
    source = data.load_text('python').train[:400_000]
    for steps in (64, 256):
        sizes = np.array([len(document) for document in packing.split_documents(source, '\n\n')])
        found = packing.Documents(np.zeros(len(source), np.int32), np.cumsum(sizes), steps)
        assert packing.Packed(found.__getitem__, found.lengths, steps, B).efficiency() > 0.99
