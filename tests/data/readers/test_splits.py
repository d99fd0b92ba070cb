"""What is held out: of every class its part, a function of the seed alone, and never the last example of a label."""

import collections
import random

import pytest

from seqjax.data.readers.examples import Example
from seqjax.data.readers.splits import hold_out
from seqjax.errors import UserError

TASKS = ('classification', 'regression', 'tagging')


def some_examples(task, count, seed=0, words=''):
    """Distinct inputs; labels of which some are frequent and some are rare."""
    rng = random.Random(seed)
    label = lambda: 'label ' + str(min(int(rng.expovariate(0.7)), 9))
    target = dict(classification=label, regression=rng.random,
                  tagging=lambda: tuple(rng.choice([None, label(), label()]) for _ in range(rng.randint(1, 5))))[task]
    return [Example(f'{words}{i}', target()) for i in range(count)]


def labels_of(examples, task):
    """How many examples have each label."""
    if task == 'regression':
        return {}
    return collections.Counter(label for example in examples for label in
                               (set(example.target) - {None} if task == 'tagging' else {example.target}))


@pytest.mark.parametrize('task', TASKS)
@pytest.mark.parametrize('count', [2, 3, 7, 40, 501])
@pytest.mark.parametrize('part', [0.01, 0.1, 0.5, 0.9])
def test_every_example_is_in_one_part_in_its_order_and_every_label_is_learned(task, count, part):
    same = dict(classification='x', regression=0.5, tagging=('x', None))[task]  # there is always a label that can be spared
    examples = some_examples(task, count, seed=count) + [Example(f'same {i}', same) for i in range(3)]
    train, validation = hold_out(examples, task, part=part, seed=3)
    assert sorted(map(id, train + validation)) == sorted(map(id, examples))
    assert train == [example for example in examples if example in train]
    assert validation == [example for example in examples if example in validation]
    assert 1 <= len(validation) <= max(1, round(len(examples) * part))
    assert train and labels_of(train, task).keys() == labels_of(examples, task).keys()


@pytest.mark.parametrize('part', [0.05, 0.1, 0.3])
def test_a_class_loses_its_share_to_within_one_example(part):
    examples = some_examples('classification', 777)
    train, validation = hold_out(examples, 'classification', part=part, seed=0)
    assert len(validation) == round(777 * part)
    whole, held = labels_of(examples, 'classification'), labels_of(validation, 'classification')
    assert min(whole.values()) < 3 and max(whole.values()) > 300
    for label, count in whole.items():
        assert abs(held[label] - count * len(validation) / 777) <= 1


def test_small_classes_share_what_is_held_out():
    examples = [Example(str(i), f'class {i % 10}') for i in range(40)]  # a tenth of each class is less than half an example
    _, validation = hold_out(examples, 'classification', part=0.1, seed=0)
    assert len(validation) == 4 and len({example.target for example in validation}) == 4


@pytest.mark.parametrize('task', TASKS)
def test_the_choice_is_a_function_of_the_seed_alone(task):
    examples = some_examples(task, 60)
    chosen = lambda seed, of=examples: [of.index(example) for example in hold_out(of, task, part=0.2, seed=seed)[1]]
    first = chosen(1)
    random.seed(5)
    state = random.getstate()
    assert chosen(1) == first
    assert random.getstate() == state
    assert chosen(1, some_examples(task, 60, words='other inputs ')) == first
    assert len({tuple(chosen(seed)) for seed in range(20)}) == 20
    assert {i for seed in range(60) for i in chosen(seed)} >= {
        i for i, example in enumerate(examples)
        if all(labels_of(examples, task)[label] > 5 for label in labels_of([example], task))}  # none is always spared


@pytest.mark.parametrize('task, targets', [
    ('classification', ['a', 'b']), ('classification', ['a']), ('regression', [1.5]), ('tagging', [('a',), ('b', None)])])
def test_where_nothing_can_be_spared_a_validation_part_is_asked_for(task, targets):
    with pytest.raises(UserError, match=f'^nothing can be held out of a training part of {len(targets)}: .*; give a valid'):
        hold_out([Example('x', target) for target in targets], task, part=0.5, seed=0)
