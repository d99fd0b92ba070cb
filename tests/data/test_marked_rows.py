"""Labelled sequences with marks around them: one text or two, labels that stay with their steps, rows that fit."""

import numpy as np
import pytest

from seqjax.data.labelled import load_labelled
from seqjax.data.readers.examples import Example, Examples, TextPair
from seqjax.data import load_codec
from seqjax.errors import FieldError
from seqjax.special_tokens import END, MARKED_COUNT, START, UNKNOWN
from tests.data.test_labelled import examples, first_letter, options

KINDS = ('char', 'word', 'byte', 'bpe')
WORDS = ('An', 'elm', "isn't", 'an', 'oak', 'thunderously')
PAIRS = [Example(TextPair('an elm', 'a tree'), 'yes'), Example(TextPair('an elm tree in a park', 'stone'), 'no')]


def load(given, task='classification', **changed):
    return load_labelled(given, task, options(special_tokens=True, **dict(dict(vocabulary=300), **changed)))


def of(rows):
    return Examples(rows, rows, [], '')


@pytest.mark.parametrize('kind', KINDS)
def test_marks_are_around_a_text_and_its_tokens_come_after_the_special_ones(kind):
    made = load(examples(first_letter), tokenizer=kind)
    how = made.codec
    for example, row in zip(examples(first_letter).train, made.rows['train']):
        tokens = how.tokens(example.inputs)
        assert row['inputs'].tolist() == [START, *tokens, END] and tokens.min() >= MARKED_COUNT
        own = 2 if kind in ('char', 'word') else 0
        np.testing.assert_array_equal(tokens - MARKED_COUNT + own, how.tokenizer.encode(example.inputs))
    assert how.vocabulary == made.for_model()['vocabulary'] == how.tokenizer.vocabulary + MARKED_COUNT - own
    lengths = [len(row['inputs']) for split in made.rows.values() for row in split]
    assert made.for_model()['context_length'] == max(lengths + [8])
    if kind in ('char', 'word'):
        assert how.tokens('ß').tolist() == [UNKNOWN]


@pytest.mark.parametrize('kind', KINDS)
def test_two_texts_of_a_row(kind):
    made = load(of(PAIRS), tokenizer=kind)
    how = made.codec
    for example, row in zip(PAIRS, made.rows['train']):
        assert row['inputs'].tolist() == [START, *how.tokens(example.inputs.first), END, *how.tokens(example.inputs.second), END]
        assert how.classes[row['targets']] == example.target
    assert how.pairs and UNKNOWN not in row['inputs']  # both texts are learned from
    numbers = load(of([Example(pair.inputs, float(i)) for i, pair in enumerate(PAIRS)]), 'regression').codec
    assert numbers.pairs and numbers.offset == 0.5


def test_the_longer_text_is_cut_first():
    made = load(of(PAIRS), max_length=16)
    how, long = made.codec, PAIRS[1].inputs
    assert made.rows['train'][1]['inputs'].tolist() == [START, *how.tokens(long.first[:8]), END, *how.tokens(long.second), END]
    assert len(made.rows['train'][0]['inputs']) == 15 and how.longest == 16
    assert made.report.endswith('1 train sequence cut to 16 steps; 1 validation sequence cut to 16 steps')


def test_labels_stay_with_their_steps_when_a_row_is_cut():
    made = load(examples(tuple), 'tagging', max_length=8)
    letters = made.codec.tokenizer.symbols
    for example, row in zip(examples(tuple).train, made.rows['train']):
        assert row['inputs'][0] == START and row['inputs'][-1] == END and len(row['inputs']) <= 8
        labelled = row['weights'] > 0
        assert labelled.tolist() == [False, *[True] * (len(labelled) - 2), False]
        names = ''.join(made.codec.classes[target] for target in row['targets'][labelled])
        assert names == example.inputs[:6] == ''.join(letters[token - 3] for token in row['inputs'][labelled])
    assert made.has_gaps  # a random field cannot be over marks


@pytest.mark.parametrize('kind', ['word', 'byte', 'bpe'])
def test_a_word_in_pieces_has_its_label_at_the_first(kind):
    tags = ('D', 'N', None, 'D', 'N', 'A')
    made = load(of([Example(WORDS, tags)] * 3), 'tagging', tokenizer=kind, vocabulary=260)
    how, row = made.codec, made.rows['train'][0]
    places = how.places(WORDS)
    assert row['inputs'].tolist() == [START, *how.tokens(' '.join(WORDS)), END]  # the same as those of the text
    assert [how.classes[row['targets'][place]] for place in places[[0, 1, 3, 4, 5]]] == ['D', 'N', 'D', 'N', 'A']
    assert row['weights'].sum() == 5 and row['weights'][places].tolist() == [1, 1, 0, 1, 1, 1]
    if kind == 'byte':
        assert places.tolist() == [1, 3, 7, 13, 16, 20]  # where a blank or the word begins
    if kind == 'word':
        assert places.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('given', ['texts', 'pairs'])
def test_a_saved_encoding_reads_the_same(kind, given):
    given = examples(first_letter) if given == 'texts' else of(PAIRS)
    made = load(given, tokenizer=kind)
    again = load_labelled(given, 'classification', options(special_tokens=True, tokenizer=kind), load_codec(made.codec.dumps()))
    assert again.facts() == made.facts() and again.for_model() == made.for_model()


def test_an_encoding_of_before_there_were_marks_is_read():
    made = load_labelled(examples(first_letter), 'classification', options()).codec
    text = made.dumps().replace(', "marked": false, "pairs": false, "longest": 0', '')
    assert 'marked' not in text and load_codec(text).dumps() == made.dumps()


CLIPS = [Example(np.zeros((2, 3), np.float32), 'a'), Example(np.ones((3, 3), np.float32), 'b')]
MISTAKES = [
    (CLIPS, 'classification', {}, 'data.special_tokens=True: puts marks around texts, and the set has frames; set it to false'),
    ([Example(WORDS, 'a'), Example(WORDS, 'b')], 'classification', {}, "data.tokenizer='char': the set consists of words; write 'word'"),
    ([Example('ab', ('a', 'b'))], 'tagging', dict(tokenizer='bpe'), "the set has a label for every character; write 'char'"),
    (PAIRS, 'classification', dict(tokenizer='word', characters_per_word=3), 'data.characters_per_word=3: goes with rows without marks'),
    (PAIRS, 'classification', dict(tokenizer='word', word_vectors='a.txt'), "data.word_vectors='a.txt': goes with rows without marks"),
    (PAIRS, 'classification', dict(max_length=7), 'data.max_length=7: rows with marks need 8 steps; set it higher'),
    ([Example('ab', ('a', 'b'))], 'tagging', dict(batching='pack'), "data.batching='pack': puts several sequences in a row, and marks"),
    ([Example('ab', 'x'), Example('', 'y')], 'classification', {}, '1 training sequence of no steps'),
]


@pytest.mark.parametrize('rows, task, changed, sentence', MISTAKES, ids=[sentence for *_, sentence in MISTAKES])
def test_what_cannot_be_marked_is_refused(rows, task, changed, sentence):
    with pytest.raises(FieldError) as caught:
        load(of(rows), task, **changed)
    assert sentence in str(caught.value)
