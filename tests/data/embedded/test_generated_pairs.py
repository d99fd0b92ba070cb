"""Strings turned round and sums: right, disjoint where they promise it, the same for the same seed and in every process."""

import collections
import os
import random
import string
import subprocess
import sys

import pytest

from seqjax import data
from seqjax.data.embedded import addition, reversal
from seqjax.errors import FieldError
from tests.tiny import tiny_config

MODULES = {'reverse': reversal, 'addition': addition}
MADE = {'reverse': lambda seed: reversal.reversal_examples('translation', seed=seed, length=12),
        'addition': lambda seed: addition.addition_examples('translation', seed=seed)}


@pytest.fixture(scope='module')
def made():
    return {source: make(0) for source, make in MADE.items()}


def parts(examples):
    return examples.train, examples.validation, examples.test


@pytest.mark.parametrize('source', MADE)
def test_every_answer_is_right(source, made):
    for part in parts(made[source]):
        for example in part:
            if source == 'reverse':
                assert list(example.target) == [*reversed(list(example.inputs))]
            else:
                assert sum(map(int, example.inputs.split('+'))) == int(example.target)
                assert str(int(example.target)) == example.target


@pytest.mark.parametrize('source', MADE)
def test_they_are_as_many_as_they_should_be(source, made):
    assert [len(part) for part in parts(made[source])] == [200_000, 1_000, 1_000]


@pytest.mark.parametrize('source', MADE)
def test_the_seed_alone_says_which(source, monkeypatch):
    monkeypatch.setattr(MODULES[source], 'TRAIN', 500)
    assert MADE[source](0) == MADE[source](0) != MADE[source](1)


def test_another_process_makes_the_same(monkeypatch):
    """Also where Python's own hashes are other ones."""
    for module in MODULES.values():
        monkeypatch.setattr(module, 'TRAIN', 500)
    code = ('from seqjax.data.embedded import addition, reversal; addition.TRAIN = reversal.TRAIN = 500; '
            "print((reversal.reversal_examples('translation', seed=3, length=12), "
            "addition.addition_examples('translation', seed=3)))")
    other = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True,
                           env={**os.environ, 'PYTHONHASHSEED': '5'})
    assert other.stdout.strip() == str(tuple(make(3) for make in MADE.values()))


def test_strings_have_all_lengths_in_training_and_the_longest_in_the_test(made):
    found = made['reverse']
    lengths = collections.Counter(len(example.inputs) for example in found.train)
    assert set(lengths) | {1} == set(range(1, 13)) == {len(example.inputs) for example in found.validation}
    assert all(lengths[length] == pytest.approx(len(found.train) / 11, rel=0.2 if length == 2 else 0.1) for length in range(2, 13))
    assert {len(example.inputs) for example in found.test} == {12}
    letters = collections.Counter(letter for example in found.train for letter in example.inputs)
    assert len(letters) == 26 and max(letters.values()) < 1.1 * min(letters.values())


@pytest.mark.parametrize('length', [3, 12, 30])
def test_no_string_of_another_part_is_trained_on_and_those_are_drawn_as_ever(length, monkeypatch):
    monkeypatch.setattr(reversal, 'TRAIN', 5_000)
    found = reversal.reversal_examples('translation', seed=2, length=length)
    train, *others = ([example.inputs for example in part] for part in parts(found))
    assert len(train) == 5_000 and not set(train) & {*others[0], *others[1]}
    rng = random.Random(2)
    drawn = [[''.join(rng.choices(string.ascii_lowercase, k=rng.randint(1, length))) for _ in range(count)]
             for count in (5_000, 1_000)]
    assert others == [drawn[1], [''.join(rng.choices(string.ascii_lowercase, k=length)) for _ in range(1_000)]]
    assert all(ours == theirs or theirs in {*others[0], *others[1]} for ours, theirs in zip(train, drawn[0]))


def test_too_few_letters_for_three_parts_are_refused():
    config = tiny_config('seq2seq', data=dict(source='reverse', sequence_length=2))
    with pytest.raises(FieldError) as caught:
        data.load(config.data, 'translation')
    assert str(caught.value) == ('data.sequence_length=2: there are 702 strings of so few letters, and 2,000 are held out; set it '
                                 'higher')


def test_no_sum_is_there_twice_in_any_order(made):
    found = made['addition']
    numbers = [[frozenset(example.inputs.split('+')) for example in part] for part in parts(found)]
    assert len(set().union(*numbers)) == sum(map(len, numbers))  # the training part and the held-out ones share none, too
    digits = collections.Counter(len(number) for part in numbers for pair in part for number in pair)
    assert set(digits) == {1, 2, 3} and digits[2] > 10_000 and digits[1] > 2_000
    larger_first = sum(int(a) > int(b) for a, b in (example.inputs.split('+') for example in found.train))
    assert larger_first == pytest.approx(100_000, rel=0.05)


@pytest.mark.parametrize('source', MADE)
def test_a_config_loads_them_and_knows_their_task(source, monkeypatch):
    monkeypatch.setattr(MODULES[source], 'TRAIN', 2_000)
    config = tiny_config('reader', data=dict(source=source, sequence_length=9))
    assert data.default_task(source) == 'translation'
    found = data.load(config.data, 'translation')
    assert found.for_model() == dict(reverse=dict(vocabulary=30, target_vocabulary=30, shared=False),
                                     addition=dict(vocabulary=15, target_vocabulary=14, shared=False))[source]
    longest = max(len(text) for text in found.texts('test')[0])
    assert longest == (9 if source == 'reverse' else 7)
    batch = found.training_batches(batch_size=4, seed=0)[5]
    assert batch['inputs'].shape[0] == 4 and (batch['weights'].sum(axis=1) >= 2).all()
