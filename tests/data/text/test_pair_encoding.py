"""Texts and translations as tokens: any text comes back, and the four special tokens are where the models expect them."""

import json
import random
import types

import numpy as np
import pytest

from seqjax.data.readers.examples import Example
from seqjax.data import load_codec
from seqjax.data.text import pair_codec
from seqjax.errors import FieldError, UserError
from seqjax.special_tokens import END, PADDING, START, UNKNOWN

KINDS = ('char', 'word', 'byte', 'bpe')
PAIRS = [('Zwei Männer  im Büro 😀', 'Two men  in an office 😀'), ('ein Hund', 'a dog'), ('Hund!', 'dog!'), (' ein ', ' a '),
         ('die Größe', 'the size'), ('Ein Hund', 'A dog')]
TAGGED = [('<de> a dog', 'ein Hund'), ('<fr> a dog', 'un chien'), ('<de> a cat', 'eine Katze')]


def learn(pairs=PAIRS, **changed):
    options = dict(tokenizer='char', vocabulary=300, shared_vocabulary=False, lowercase=False)
    return pair_codec.learn_pairs([Example(*pair) for pair in pairs], types.SimpleNamespace(**{**options, **changed}))


def strange_texts(count=50):
    rng = random.Random(0)
    letters = 'ab  ÄöüßÉ\t\u2028\N{NO-BREAK SPACE}😀\n中й\'"<>_'
    return [''.join(rng.choices(letters, k=rng.randint(0, 12))) for _ in range(count)]


@pytest.mark.parametrize('shared', [False, True])
@pytest.mark.parametrize('kind', ['char', 'byte', 'bpe'])
def test_every_text_comes_back_as_it_was(kind, shared):
    known = strange_texts()
    made = learn([(text, text[::-1]) for text in known], tokenizer=kind, shared_vocabulary=shared)
    for text in known if kind == 'char' else [*known, 'Łódź 🚲', ' ', '']:
        tokens = made.target(text)
        assert made.text(tokens) == text and tokens.dtype == np.int32
        assert made.text([*tokens, 7, 7]) == text  # what comes after the end is no part of it


def test_words_come_back_with_one_blank_between_them():
    made = learn(tokenizer='word')
    assert made.text(made.target('  a   dog ')) == 'a dog'


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('shared', [False, True])
def test_special_tokens_come_first_and_the_end_is_last(kind, shared):
    made = learn(tokenizer=kind, shared_vocabulary=shared)
    for tokens, size in ((made.source('ein Hund'), made.for_model()['vocabulary']),
                         (made.target('a dog'), made.for_model()['target_vocabulary'])):
        assert tokens[-1] == END == 3 and 4 <= tokens[:-1].min() and tokens[:-1].max() < size
    assert (PADDING, UNKNOWN, START) == (0, 1, 2)
    assert made.source('').tolist()[-1] == END


def test_the_sizes_count_every_token():
    """Characters by hand: four special tokens, and the different letters of a side."""
    letters = [{letter for pair in PAIRS for letter in pair[side]} for side in (0, 1)]
    assert learn().for_model() == dict(vocabulary=4 + len(letters[0]), target_vocabulary=4 + len(letters[1]), shared=False)
    both = 4 + len(letters[0] | letters[1])
    assert learn(shared_vocabulary=True).for_model() == dict(vocabulary=both, target_vocabulary=both, shared=True)
    assert learn(tokenizer='byte').for_model()['vocabulary'] == 4 + 256
    words = learn(tokenizer='word', vocabulary=5)  # padding and unknown are two of them
    assert words.for_model()['vocabulary'] == 5 + 2 and words.target('a dog').tolist().count(UNKNOWN) == 0


def test_all_letters_and_words_have_tokens_of_their_own():
    for kind in ('char', 'word'):
        made = learn(tokenizer=kind)
        parts = sorted({part for _, target in PAIRS for part in (target if kind == 'char' else target.split())})
        assert sorted(int(made.target(part)[0]) for part in parts) == list(range(4, 4 + len(parts)))


@pytest.mark.parametrize('kind', ['char', 'word'])
def test_what_was_not_learned_is_unknown_and_shows(kind):
    made = learn(tokenizer=kind)
    assert made.source('Я').tolist() == [UNKNOWN, END]
    assert made.text(made.target('Я')) == '\N{REPLACEMENT CHARACTER}'
    assert made.target_words(made.target('Я')) == ['<unk>', '</s>']


def test_tokens_that_are_no_text_do_not_show():
    for kind in KINDS:
        made = learn(tokenizer=kind)
        assert made.text([PADDING, START, *made.target('a dog')]) == 'a dog'
    assert learn(tokenizer='byte').text([UNKNOWN, *learn(tokenizer='byte').target('é')]) == 'é'
    shared = learn(TAGGED, shared_vocabulary=True)
    assert shared.text([4, *shared.target('ein Hund')]) == 'ein Hund'  # a tag


def test_byte_pairs_of_a_word_are_the_same_wherever_it_stands():
    made = learn([('a dog', 'the dog')] * 5 + [('dog', 'dog')], tokenizer='bpe', vocabulary=270)
    assert made.target('dog').tolist() == made.target('the dog').tolist()[-2:]
    assert made.target_words(made.target('the dog')) == ['▁the', '▁dog', '</s>']


def test_one_vocabulary_gives_a_text_the_same_tokens_on_both_sides():
    for kind in KINDS:
        made = learn(tokenizer=kind, shared_vocabulary=True)
        assert made.source('ein dog').tolist() == made.target('ein dog').tolist()
        assert UNKNOWN not in made.target('ein Hund') and UNKNOWN not in made.source('a dog')


@pytest.mark.parametrize('kind', KINDS)
def test_small_letters_on_both_sides(kind):
    made = learn(tokenizer=kind, lowercase=True)
    assert made.source('EIN HUND').tolist() == made.source('ein hund').tolist()
    assert made.text(made.target('A Dog')) == 'a dog' == made.clean('A Dog')
    assert learn(tokenizer=kind).clean('A Dog') == 'A Dog'


# ------------------------------------------------------------------------------------------------ tags

@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('shared', [False, True])
def test_a_tag_is_one_token_and_the_text_after_it_has_its_own(kind, shared):
    made = learn(TAGGED, tokenizer=kind, shared_vocabulary=shared)
    german, french = made.source('<de> a dog'), made.source('<fr> a dog')
    assert (german[0], french[0]) == (4, 5) and german[1:].tolist() == french[1:].tolist()
    assert german[1:].min() == END and sorted(german[1:])[1] >= 6
    assert made.source_words(german)[0] == '<de>' and made.source_words(german)[-1] == '</s>'
    first = made.target('ein Hund')[:-1].min()
    assert first >= (6 if shared else 4)


def test_an_unknown_tag_is_refused_with_those_there_are():
    made = learn(TAGGED)
    for text in ('<es> a dog', 'a dog', '<de>a dog'):
        with pytest.raises(UserError) as caught:
            made.source(text)
        assert str(caught.value) == f'{text!r} begins with no tag that was learned; there are: <de>, <fr>'


def test_tags_are_learned_only_where_every_source_has_one():
    made = learn([*TAGGED, ('a dog', 'ein Hund')])
    assert made.source_side.tags == () and made.source_words(made.source('<de> a'))[:4] == ['<', 'd', 'e', '>']
    assert learn([('<DE> A', 'b')], lowercase=True).source('<De> a')[0] == 4


# ------------------------------------------------------------------------------------------------ for a reader, and saved

def test_every_token_has_something_to_print():
    for kind in KINDS:
        made = learn([('a\tb \u2028c', 'x')], tokenizer=kind)
        for text in ('a\tb \u2028c', 'ä😀'):
            tokens = made.source(text)
            words = made.source_words(tokens)
            assert len(words) == len(tokens) and all(word.isprintable() and word.strip() for word in words)
    made = learn()
    assert made.target_words([*made.target('a d'), PADDING, START]) == ['a', '▁', 'd', '</s>', '<pad>', '<s>']


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('changed', [dict(), dict(shared_vocabulary=True), dict(lowercase=True)])
def test_a_saved_encoding_reads_the_same(kind, changed):
    for pairs in (PAIRS, TAGGED):
        made = learn(pairs, tokenizer=kind, **changed)
        saved = made.dumps()
        again = load_codec(saved)
        assert json.loads(saved)['kind'] == 'pairs' and again.dumps() == saved
        assert again.for_model() == made.for_model() and again.lowercase == made.lowercase
        for source, target in pairs:
            assert again.source(source).tolist() == made.source(source).tolist()
            assert again.target(target).tolist() == made.target(target).tolist()


@pytest.mark.parametrize('changed, sentence', [
    (dict(tokenizer='words'), "data.tokenizer='words': no such tokenizer; did you mean 'word'?"),
    (dict(tokenizer='bpe', vocabulary=100), 'data.vocabulary=100: byte pairs start from 256 bytes; ask for more'),
    (dict(tokenizer='word', vocabulary=2), 'data.vocabulary=2: padding and unknown symbols take two; ask for more')])
def test_what_cannot_be_learned_is_refused(changed, sentence):
    with pytest.raises(FieldError) as caught:
        learn(**changed)
    assert str(caught.value) == sentence


@pytest.mark.parametrize('kind', KINDS)
def test_a_beginning_is_the_tokens_of_a_text_without_an_end(kind):
    made = learn(tokenizer=kind, lowercase=True)
    assert made.prefix('A dog').tolist() == made.target('a dog')[:-1].tolist()
    assert made.text(made.prefix('A dog')) == 'a dog' and made.prefix('').tolist() == []
    if kind in ('byte', 'bpe'):
        assert made.text(made.prefix('Łódź 🚲')) == 'łódź 🚲'  # nothing is unknown
        return
    with pytest.raises(UserError) as caught:
        made.prefix('a Żaba a Żaba')
    unknown = "'żaba'" if kind == 'word' else "'ż', 'b'"
    assert str(caught.value) == f'the answers of the run have no {unknown}'
