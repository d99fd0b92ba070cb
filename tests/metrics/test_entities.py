"""Entity-level F1 against a loop over tokens, conlleval's sample output and the example in seqeval's README."""

import math

import jax
import numpy as np
import pytest

from seqjax import metrics
from seqjax.metrics import entities
from seqjax.metrics.entities import PREDICTED, RIGHT, TRUE, count_entities, entity_f1, scheme_of
from tests.reference.entities import spans

IOB2 = ('O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC')
BIOES = (*IOB2, 'E-PER', 'S-PER', 'E-LOC', 'S-LOC')


def counted(classes, pairs):
    """[types, 3] by the loop, of (true tags, predicted tags)."""
    types = scheme_of(classes).types
    counts = np.zeros((len(types), 3), int)
    for true, predicted in pairs:
        true, predicted = spans(true), spans(predicted)
        for column, found in ((TRUE, true), (PREDICTED, predicted), (RIGHT, true & predicted)):
            for kind, _, _ in found:
                counts[types.index(kind), column] += 1
    return counts


def batch(classes, pairs, T):
    """targets, predictions and weights [B, T]."""
    number = lambda tags: [*map(classes.index, tags), *[1] * (T - len(tags))]  # what fills up begins an entity, and is none
    targets, predictions = (np.array([number(pair[side]) for pair in pairs], np.int32) for side in (0, 1))
    return targets, predictions, np.array([[1.0] * len(true) + [0.0] * (T - len(true)) for true, _ in pairs], np.float32)


@pytest.mark.parametrize('classes', [IOB2, BIOES, ('I-b', 'O', 'B-a', 'I-a', 'U-b', 'L-b', 'B-b')], ids=['IOB', 'BIOES', 'BILOU'])
def test_counts_are_those_of_a_loop_over_the_tokens(classes):
    rng, T = np.random.default_rng(0), 9
    draw = lambda count: list(rng.choice(classes, count))
    pairs = [(true := draw(length), [tag if rng.random() < 0.8 else draw(1)[0] for tag in true])
             for length in rng.integers(0, T + 1, 200)]
    targets, predictions, weights = batch(classes, pairs, T)
    expected = counted([c.replace('U-', 'S-').replace('L-', 'E-') for c in classes],
                       [[[tag.replace('U-', 'S-').replace('L-', 'E-') for tag in tags] for tags in pair] for pair in pairs])
    found = jax.jit(lambda *arrays: count_entities(scheme_of(classes), *arrays))(targets, predictions, weights)
    np.testing.assert_array_equal(found, expected)
    assert expected[:, RIGHT].min() > 20 and (expected[:, RIGHT] < expected[:, TRUE]).all()


def test_positions_without_a_label_are_passed_over_and_packed_sequences_are_apart():
    tags = lambda *names: np.array([[IOB2.index(name) for name in names]], np.int32)
    true = tags('B-PER', 'O', 'I-PER', 'I-PER', 'B-LOC')
    weights, segments = np.array([[1, 0, 1, 1, 1]], np.float32), np.array([[3, 3, 3, 5, 5]])
    plain = count_entities(scheme_of(IOB2), true, true, weights)
    np.testing.assert_array_equal(plain, [[1, 1, 1], [1, 1, 1]])  # types: LOC, PER
    apart = count_entities(scheme_of(IOB2), true, true, weights, segments)
    np.testing.assert_array_equal(apart, [[1, 1, 1], [2, 2, 2]])
    cut = tags('B-PER', 'O', 'I-PER', 'O', 'B-LOC')
    np.testing.assert_array_equal(count_entities(scheme_of(IOB2), true, cut, weights), [[1, 1, 1], [1, 1, 0]])


def test_the_example_of_seqeval():
    """https://github.com/chakki-works/seqeval, README: f1 0.50; MISC 0.00, PER 1.00."""
    classes = ('O', 'B-MISC', 'I-MISC', 'B-PER', 'I-PER')
    true = [['O', 'O', 'O', 'B-MISC', 'I-MISC', 'I-MISC', 'O'], ['B-PER', 'I-PER', 'O']]
    predicted = [['O', 'O', 'B-MISC', 'I-MISC', 'I-MISC', 'I-MISC', 'O'], ['B-PER', 'I-PER', 'O']]
    arrays = batch(classes, list(zip(true, predicted)), 7)
    counts = count_entities(scheme_of(classes), *arrays)
    assert entity_f1(counts, scheme_of(classes).types) == {'': 0.5, 'MISC': 0.0, 'PER': 1.0}


def test_the_sample_output_of_conlleval():
    """https://www.clips.uantwerpen.be/conll2000/chunking/output.html: 459 phrases of all types, found 539, correct 371."""
    counts = [[459, 539, 371]]
    scores = metrics.measure(dict(entities=counts, entity_types=('all',)))
    assert {name: round(100 * value, 2) for name, value in scores.items()} == {
        'entity_precision': 68.83, 'entity_recall': 80.83, 'entity_f1': 74.35, 'entity_f1/all': 74.35}


def test_without_entities_there_is_no_score_and_one_that_nobody_found_is_zero():
    assert math.isnan(entity_f1([[0, 0, 0]], ('PER',))['']) and entity_f1([[2, 0, 0]], ('PER',)) == {'': 0.0, 'PER': 0.0}
    assert math.isnan(entities.entity_precision([[2, 0, 0]])) and entities.entity_recall([[2, 0, 0]]) == 0


@pytest.mark.parametrize('classes', [('NOUN', 'VERB'), ('H', 'E', 'C'), ('O', 'B', 'I'), ('O', 'S-PER'), ('B-PER', 'I-PER'),
                                     ('O', 'B-PER', 'X')])
def test_other_labels_are_no_iob_tags(classes):
    assert scheme_of(classes) is None
