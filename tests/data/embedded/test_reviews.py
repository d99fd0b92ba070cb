"""Opinions against a reader of another kind: split the sentence, take the clause that counts, count negations."""

import collections
import math

import pytest

from seqjax.data.embedded.reviews import BLAME, PRAISE, review_examples


@pytest.fixture(scope='module')
def reviews():
    return review_examples('classification', held_out=0.1, seed=0)


def parts(examples):
    return examples.train, examples.validation, examples.test


def opinion(clause):
    """+1 or -1: the one word of opinion, turned over by every negation."""
    quality, = (1 if word in PRAISE else -1 for word in clause.split() if word in PRAISE + BLAME)
    negations = sum(clause.count(word) for word in ('not', 'nobody', 'deny', 'far from', 'anything but'))
    return quality * (-1) ** negations


def read(sentence):
    sentence = sentence.removesuffix(' .')
    if sentence.startswith('i expected') and sentence.endswith(('i was right', 'i was wrong')):
        return opinion(sentence) * (1 if sentence.endswith('right') else -1)
    if ' , but ' in sentence:
        return opinion(sentence.split(' , but ')[1])
    if sentence.startswith('although '):
        return opinion(sentence.split(' , ')[1])
    if ' , although ' in sentence:
        return opinion(sentence.split(' , although ')[0])
    first, *others = map(opinion, sentence.split(' , and '))
    assert all(other == first for other in others)
    return first


@pytest.mark.parametrize('sentence, polarity', [
    ('although the plot was really dull , i cannot deny that the acting felt superb .', 1),
    ('i expected a clever film , and i was wrong .', -1),
    ('the cast was not bad at all .', 1),
    ('the cast was anything but bad , but the script was far from funny .', -1),
])
def test_the_reader_reads(sentence, polarity):
    assert read(sentence) == polarity


def test_the_label_is_what_the_sentence_says(reviews):
    for part in parts(reviews):
        for example in part:
            assert example.target == {1: 'positive', -1: 'negative'}[read(example.inputs)], example.inputs


def test_sentences_are_many_different_ragged_and_balanced(reviews):
    assert list(map(len, parts(reviews))) == [16_200, 1_800, 2_000]
    sentences = [example.inputs for part in parts(reviews) for example in part]
    assert len(set(sentences)) == len(sentences)  # so none is in two parts
    assert {len(sentence.split()) for sentence in sentences} >= set(range(5, 21))
    for part in parts(reviews):
        assert 0.45 < sum(example.target == 'positive' for example in part) / len(part) < 0.55
        assert {shape for example in part for shape in ('right', 'wrong', 'although', 'but', 'deny')
                if shape in example.inputs.split()} == {'right', 'wrong', 'although', 'but', 'deny'}
    assert all(sentence == sentence.lower() and '  ' not in sentence for sentence in sentences)


def test_counting_words_does_not_find_the_answer(reviews):
    """Naive Bayes, with a count of 1 added."""
    counts = {'positive': collections.Counter(), 'negative': collections.Counter()}
    for example in reviews.train:
        counts[example.target].update(example.inputs.split())

    def log_odds(word):
        positive, negative = ((count[word] + 1) / count.total() for count in counts.values())
        return math.log(positive / negative)

    right = sum((sum(map(log_odds, example.inputs.split())) > 0) == (example.target == 'positive')
                for example in reviews.test)
    assert 0.5 < right / len(reviews.test) < 0.65


def test_the_sentences_depend_on_the_seed_and_on_nothing_else(reviews):
    assert reviews == review_examples('classification', held_out=0.1, seed=0)
    other = review_examples('classification', held_out=0.2, seed=1)
    assert other.train[:10] != reviews.train[:10] and list(map(len, parts(other))) == [12_800, 3_200, 4_000]
