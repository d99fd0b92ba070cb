"""Labelled sequences as numbers and batches: against plain loops, and the same again after saving."""

import collections
import json
import random
import types

import numpy as np
import pytest

from seqjax.data.labelled import load_labelled
from seqjax.data.readers.examples import Example, Examples
from seqjax.data import load_codec
from seqjax.errors import FieldError

OPTIONS = dict(source='file:trees.tsv', tokenizer='char', vocabulary=100, lowercase=False, characters_per_word=0, word_vectors='', max_length=0,
               special_tokens=False, batching='bucket', num_buckets=2, train_examples=0, examples_per_class=0,
               split_seed=0, images_as='', image_size=0, augment='', normalise=False)


def options(**changed):
    return types.SimpleNamespace(**{**OPTIONS, **changed})


def texts(count, seed):
    rng = random.Random(seed)
    return [''.join(rng.choices('abcde', k=rng.randint(1, 9))) for _ in range(count)]


def examples(target, count=40):
    made = [[Example(text, target(text)) for text in texts(n, seed)] for seed, n in enumerate((count, 7, 5))]
    return Examples(*made, report='trees.tsv: some records')


def first_letter(text):
    return text[0]


def test_every_sequence_is_read_once_in_evaluation_with_its_own_answer():
    given = examples(first_letter)
    made = load_labelled(given, 'classification', options())
    letters = made.codec.tokenizer.symbols
    for split, expected in (('validation', given.validation), ('test', given.test)):
        seen = []
        for batch in made.evaluation_batches(batch_size=4, split=split):
            for tokens, length, target, weight in zip(batch['inputs'], batch['lengths'], batch['targets'], batch['weights']):
                assert (tokens[length:] == 0).all() and weight == (length > 0)
                if weight:
                    seen.append((''.join(letters[token] for token in tokens[:length]), made.codec.classes[target]))
        assert sorted(seen) == sorted((example.inputs, example.target) for example in expected)


def test_the_compiled_shapes_are_as_many_as_declared():
    made = load_labelled(examples(first_letter), 'classification', options(num_buckets=3))
    training = made.training_batches(batch_size=4, seed=0)
    assert len({training[step]['inputs'].shape for step in range(60)}) == made.shapes[0] == 3
    held_out = [batch['inputs'].shape for split in ('validation', 'test')
                for batch in made.evaluation_batches(batch_size=4, split=split)]
    assert len(set(held_out)) == made.shapes[1] <= 3


def test_exact_batches_have_no_padding():
    made = load_labelled(examples(first_letter), 'classification', options(batching='exact'))
    training = made.training_batches(batch_size=1, seed=0)
    assert all(training[step]['inputs'].shape == (1, training[step]['lengths'][0]) for step in range(50))
    assert made.shapes[0] == len({len(example.inputs) for example in examples(first_letter).train})


def test_steps_without_a_label_have_no_weight():
    tags = lambda text: tuple(None if letter == 'c' else letter for letter in text)
    made = load_labelled(examples(tags), 'tagging', options())
    assert made.has_gaps and made.codec.classes == ('a', 'b', 'd', 'e')
    row = made.codec.row(Example('abc', ('a', 'b', None)))
    assert row['targets'].tolist() == [0, 1, 0] and row['weights'].tolist() == [1, 1, 0]
    assert not load_labelled(examples(tuple), 'tagging', options()).has_gaps


def test_numbers_are_measured_by_the_training_part():
    given = examples(lambda text: 3.0 * len(text))
    made = load_labelled(given, 'regression', options())
    targets = [example.target for example in given.train]
    assert made.for_task() == dict(classes=(), offset=pytest.approx(np.mean(targets)), scale=pytest.approx(np.std(targets)))
    assert made.for_model()['outputs'] == 1 and made.codec.row(given.test[0])['targets'] == given.test[0].target


def test_words_are_spelled_out_beside_their_token():
    sentences = [Example(('An', 'elm', 'is', 'an', 'elm'), ('D', 'N', 'V', 'D', 'N'))] * 4
    made = load_labelled(Examples(sentences, sentences, [], ''), 'tagging',
                         options(tokenizer='word', characters_per_word=2, lowercase=True))
    row = made.rows['train'][0]
    spelled = made.codec.spelling.symbols
    assert row['inputs']['words'][0] == row['inputs']['words'][3]  # lower case
    assert [''.join(spelled[c] for c in word if c) for word in row['inputs']['characters']] == ['An', 'el', 'is', 'an', 'el']
    assert made.for_model()['characters'] == len(spelled)
    unknown = made.codec.inputs(('oak',))
    assert unknown['words'].tolist() == [1] and unknown['characters'].tolist() == [[1, made.codec.spelling.encode('a')[0]]]


def test_frames_go_in_as_they_are():
    clips = [Example(np.full((length, 3), length, np.float32), str(length)) for length in (2, 4, 2)]
    made = load_labelled(Examples(clips, clips, [], ''), 'classification', options())
    assert made.sample()['inputs'].shape == (1, 2, 3) and made.for_model()['vocabulary'] is None
    assert made.splits == ('train', 'validation')


def test_long_training_sequences_are_cut_and_counted():
    made = load_labelled(examples(tuple), 'tagging', options(max_length=3))
    longer = sum(len(example.inputs) > 3 for example in examples(tuple).train)
    assert max(len(row['targets']) for row in made.rows['train']) == 3
    assert max(len(row['targets']) for row in made.rows['validation']) > 3
    assert f'; {longer} training sequences cut to 3 steps' in made.report


@pytest.mark.parametrize('task, target, changed', [
    ('classification', first_letter, dict(lowercase=True)), ('regression', len, {}), ('tagging', tuple, {}),
    ('classification', first_letter, dict(tokenizer='word', characters_per_word=3)),
    ('classification', first_letter, dict(tokenizer='byte'))])
def test_a_saved_encoding_reads_the_same(task, target, changed):
    made = load_labelled(examples(target), task, options(**changed))
    again = load_labelled(examples(target), task, options(**changed), load_codec(made.codec.dumps()))
    assert again.facts() == made.facts()
    assert {**again.for_model(), **again.for_task()} == {**made.for_model(), **made.for_task()}
    assert json.loads(json.dumps(made.facts())) == made.facts()


def test_other_rows_have_another_hash():
    one, other = examples(first_letter), examples(first_letter)
    other.test[0] = Example(other.test[0].inputs + 'a', other.test[0].target)
    hashes = [load_labelled(each, 'classification', options()).facts()['sha256'] for each in (one, other)]
    assert hashes[0] != hashes[1]


WORDS = [Example(('a', 'b'), ('x', 'y'))]
MISTAKES = [
    ('tagging', WORDS, {}, "data.tokenizer='char': the set consists of words; write 'word'"),
    ('tagging', [Example('ab', ('x', 'y'))], dict(tokenizer='word'),
     "data.tokenizer='word': the set has a label for every character; write 'char'"),
    ('classification', [Example('ab', 'x'), Example('b', 'y')], dict(characters_per_word=4),
     "data.characters_per_word=4: needs words; set it to 0, or data.tokenizer to 'word'"),
    ('classification', [Example('ab', 'x'), Example('b', 'y')], dict(word_vectors='glove.txt'),
     "data.word_vectors='glove.txt': are of words, and data.tokenizer='char'; write 'word'"),
    ('classification', [Example('ab', 'x')], {}, "has one class, 'x'; there is nothing to tell apart"),
    ('classification', [Example('ab', 'x'), Example('', 'y')], {}, '1 training sequence of no steps'),
]


@pytest.mark.parametrize('task, train, changed, sentence', MISTAKES, ids=[sentence for *_, sentence in MISTAKES])
def test_what_cannot_be_encoded_is_refused(task, train, changed, sentence):
    with pytest.raises(FieldError) as error:
        load_labelled(Examples(train, train, [], ''), task, options(**changed))
    assert sentence in str(error.value)


@pytest.mark.parametrize('kind', ['byte', 'bpe'])
def test_bytes_and_byte_pairs_leave_padding_and_unknown_free(kind):
    made = load_labelled(examples(first_letter), 'classification', options(tokenizer=kind, vocabulary=260)).codec
    tokens = made.inputs('\0a!')
    np.testing.assert_array_equal(tokens - 2, made.tokenizer.encode('\0a!'))
    assert tokens.min() >= 2 and tokens.max() < made.for_model()['vocabulary'] == made.tokenizer.vocabulary + 2


def test_a_run_may_train_on_a_few_examples_which_a_seed_draws():
    pairs = [a + b for a in 'abcdef' for b in 'abcdef']
    given = Examples(*([Example(text, tuple(text)) for text in pairs[:n]] for n in (36, 7, 5)), report='')

    def drawn(count, seed):
        made = load_labelled(given, 'tagging', options(train_examples=count, split_seed=seed))
        return made, [''.join(made.codec.classes[i] for i in row['targets']) for row in made.rows['train']]

    (made, ten), (_, twenty), (_, others) = drawn(10, 3), drawn(20, 3), drawn(20, 4)
    assert len(ten) == 10 and len(twenty) == 20 and set(ten) < set(twenty) and twenty == sorted(twenty) != others
    assert (len(made.rows['validation']), len(made.rows['test'])) == (7, 5)
    assert made.report.endswith('10 of 36 training sequences')
    with pytest.raises(FieldError, match='data.train_examples=37: there are 36; set it to that or less, or to 0 for all'):
        drawn(37, 3)


def test_a_run_may_train_on_so_many_examples_of_every_class():
    make = lambda letters: [Example(a + str(i), a) for i, a in enumerate(letters)]
    given = Examples(make('xyz' * 9 + 'xx'), make('xyz'), make('xy'), report='some')

    def drawn(count, seed, task='classification', **more):
        made = load_labelled(given, task, options(examples_per_class=count, split_seed=seed, **more))
        return made, [record.inputs for record in made.rows['train'].records]

    (made, two), (_, five), (_, others) = drawn(2, 3), drawn(5, 3), drawn(5, 4)
    of_class = collections.Counter(text[0] for text in two)
    assert of_class == dict(x=2, y=2, z=2) and len(five) == 15
    assert set(two) < set(five) and set(five) != set(others)
    assert five == sorted(five, key=lambda text: int(text[1:]))  # in the order of the records
    assert (len(made.rows['validation']), len(made.rows['test'])) == (3, 2)
    assert made.report.startswith('some; 6 of 29 training examples')
    refused = {"data.examples_per_class=10: the class 'y' has 9 training examples; set it to that or "
               'less, or to 0 for all': dict(count=10, seed=3),
               'data.examples_per_class=2: and config.data.train_examples=5: set one of them to 0':
               dict(count=2, seed=3, train_examples=5)}
    for sentence, arguments in refused.items():
        with pytest.raises(FieldError) as caught:
            drawn(**arguments)
        assert str(caught.value) == sentence
    with pytest.raises(FieldError, match='the answers of regression are no classes; set config.data.train_'):
        load_labelled(given, 'regression', options(examples_per_class=2))


@pytest.mark.parametrize('task', ['classification', 'tagging'])
@pytest.mark.parametrize('held_out, refused', [('xe', True), ('xy', False)], ids=['asked for', 'not asked for'])
def test_a_label_that_is_lost_by_drawing_is_the_fault_of_the_number(task, held_out, refused):
    label = str if task == 'classification' else tuple
    make = lambda letters: [Example(letter, label(letter)) for letter in letters]
    given = Examples(make('e' + 'xy' * 20), make(held_out), [], report='some')
    if not refused:
        assert load_labelled(given, task, options(train_examples=9)).codec.classes == ('x', 'y')
        return
    with pytest.raises(FieldError) as caught:
        load_labelled(given, task, options(train_examples=9))
    assert str(caught.value) == ("data.train_examples=9: none of those that are drawn has the label 'e'; set it higher, or "
                                 'config.data.split_seed to draw others')


def test_one_class_is_left_by_drawing_or_was_there_from_the_start():
    given = Examples([Example('a', letter) for letter in 'xxxxxy'], [Example('a', 'x')], [], report='some')
    with pytest.raises(FieldError, match="data.train_examples=1: none of those that are drawn has the label '[xy]'"):
        load_labelled(given, 'classification', options(train_examples=1))
    alone = Examples(given.train[:5], given.validation, [], report='some')
    with pytest.raises(FieldError, match="data.source='file:trees.tsv': has one class, 'x'; there is nothing to tell apart"):
        load_labelled(alone, 'classification', options(train_examples=1))

