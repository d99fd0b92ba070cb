"""Tokenizers: what is encoded is decoded to the same text, before and after they were saved."""

from hypothesis import given, settings, strategies
import numpy as np
import pytest

from seqjax.data.text import tokenizers
from seqjax.errors import FieldError, UserError

TEXT = 'The quick brown fox jumps over the lazy dog. Où est-ce? 你好 🙂\r\n\ttab\x0b\x1c\u2028end\n' * 20
UNICODE = strategies.text(strategies.characters(codec='utf-8'))  # every character that UTF-8 has, so no lone surrogate
LEARNED = [kind for kind in tokenizers.KINDS if kind != 'pretrained']  # that one comes with weights


@pytest.fixture(scope='module', params=['byte', 'bpe', 'unigram'])
def open_tokenizer(request):
    """A tokenizer that knows any text."""
    return tokenizers.train(request.param, TEXT, vocabulary=300)


@settings(max_examples=200, deadline=None)
@given(text=UNICODE)
def test_any_text_makes_the_round_trip(open_tokenizer, text):
    tokens = open_tokenizer.encode(text)
    assert tokens.dtype == np.int32
    assert open_tokenizer.decode(tokens) == text


@settings(max_examples=200, deadline=None)
@given(text=UNICODE.filter(bool))
def test_characters_make_the_round_trip_one_token_each(text):
    tokenizer = tokenizers.train('char', text)
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int32 and len(tokens) == len(text)
    assert tokenizer.decode(tokens) == text
    assert tokenizer.vocabulary == len(set(text))
    assert tokenizer.encode('').size == 0


@pytest.mark.parametrize('kind', LEARNED)
def test_a_saved_tokenizer_gives_the_same_numbers(kind):
    tokenizer = tokenizers.train(kind, TEXT, vocabulary=300)
    loaded = tokenizers.loads(tokenizers.dumps(tokenizer))
    assert type(loaded) is type(tokenizer)
    assert loaded.vocabulary == tokenizer.vocabulary
    np.testing.assert_array_equal(loaded.encode(TEXT), tokenizer.encode(TEXT))
    assert loaded.decode(loaded.encode(TEXT)) == ('\n'.join(' '.join(line.split()) for line in TEXT.split('\n')) if kind == 'word' else TEXT)


@pytest.mark.parametrize('kind', LEARNED)
def test_numbers_are_below_the_vocabulary(kind):
    tokenizer = tokenizers.train(kind, TEXT, vocabulary=300)
    tokens = tokenizer.encode(TEXT)
    assert tokens.min() >= 0 and tokens.max() < tokenizer.vocabulary


@pytest.mark.parametrize('text, unknown', [('abz', 'z'), ('\n', '\n'), ('\U0010ffff', '\U0010ffff'), ('a\x00b', '\x00')])
def test_an_unknown_character_is_named_with_the_known_ones(text, unknown):
    with pytest.raises(UserError) as caught:
        tokenizers.train('char', 'cab').encode(text)
    assert str(caught.value) == (f"character {unknown!r} was not in the text the tokenizer was made from; "
                                 "it knows these: 'abc'")


def test_characters_are_numbered_in_the_order_of_their_code_points():
    tokenizer = tokenizers.train('char', 'c🙂ab\n')
    assert tokenizer.characters == '\nabc🙂'
    assert tokenizer.encode('🙂a\n').tolist() == [4, 1, 0]


def test_bytes_are_utf_8_and_half_a_character_is_replaced():
    tokenizer = tokenizers.train('byte', '')
    assert tokenizer.encode('é').tolist() == [0xC3, 0xA9]
    assert tokenizer.vocabulary == 256
    assert tokenizer.decode([0xC3]) == '\N{REPLACEMENT CHARACTER}'


@pytest.mark.parametrize('vocabulary', [256, 257, 300])
def test_byte_pairs_learn_as_many_tokens_as_they_are_asked_for(vocabulary):
    tokenizer = tokenizers.train('bpe', TEXT, vocabulary)
    assert tokenizer.vocabulary == vocabulary
    count = len(tokenizer.encode('The quick brown fox'))
    assert count == 19 if vocabulary == 256 else count < 19


def test_byte_pairs_that_the_text_does_not_have_are_not_invented():
    assert tokenizers.train('bpe', 'ab\n', 1000).vocabulary < 300


@pytest.mark.parametrize('kind, vocabulary, sentence', [
    ('bpe', 255, 'data.vocabulary=255: byte pairs start from 256 bytes; ask for more'),
    ('unigram', 256, 'data.vocabulary=256: pieces are 256 bytes and longer ones; ask for more'),
    ('word', 2, 'data.vocabulary=2: padding and unknown symbols take two; ask for more'),
    ('chars', 0, "data.tokenizer='chars': no such tokenizer; did you mean 'char'?"),
    ('zzz', 0, "data.tokenizer='zzz': no such tokenizer; choose one of: bpe, byte, char, pretrained, unigram, word"),
])
def test_what_cannot_be_made_is_refused(kind, vocabulary, sentence):
    with pytest.raises(FieldError) as caught:
        tokenizers.train(kind, TEXT, vocabulary)
    assert str(caught.value) == sentence


# ------------------------------------------------------------------------------------------------ how large a token is

@settings(max_examples=100, deadline=None)
@given(text=UNICODE.filter(bool))
def test_the_sizes_of_tokens_add_up_to_the_characters_and_bytes_of_the_text(open_tokenizer, text):
    for tokenizer in (open_tokenizer, tokenizers.train('char', text)):
        sizes = tokenizer.sizes()
        assert sizes.shape == (tokenizer.vocabulary, 2)
        assert sizes[tokenizer.encode(text)].sum(axis=0).tolist() == [len(text), len(text.encode('utf-8'))]


def test_a_character_counts_at_its_first_byte():
    sizes = tokenizers.train('byte', '').sizes()
    assert [sizes[byte].tolist() for byte in 'é'.encode()] == [[1, 1], [0, 1]]
    assert tokenizers.train('char', 'a🙂').sizes().tolist() == [[1, 1], [1, 4]]
    assert tokenizers.train('word', 'a b').sizes() is None


# ------------------------------------------------------------------------------------------------ symbols

SENTENCES = ['the dog and the cat', ('the', 'Dog', 'sat')]


def test_the_most_frequent_symbols_come_first_and_then_by_code_point():
    words = tokenizers.symbols('word', SENTENCES)
    assert words.symbols == ('', '\N{REPLACEMENT CHARACTER}', 'the', 'Dog', 'and', 'cat', 'dog', 'sat')
    assert words.vocabulary == len(words.symbols)
    assert tokenizers.symbols('word', SENTENCES, 5, lowercase=True).symbols[2:] == ('the', 'dog', 'and')
    assert tokenizers.symbols('char', ['abcab', 'b']).symbols[2:] == ('b', 'a', 'c')


@pytest.mark.parametrize('unit, sequence, tokens', [
    ('word', 'the  cat\nbarks', [2, 5, 1]), ('word', ('the', 'cat', 'barks'), [2, 5, 1]), ('word', '', []), ('word', (), []),
    ('char', 'xbax', [1, 2, 3, 1]), ('char', ('b', 'x'), [2, 1]), ('char', '', [])])
def test_texts_and_tuples_are_encoded_alike_and_what_is_unknown_is_1(unit, sequence, tokens):
    tokenizer = tokenizers.symbols(unit, SENTENCES if unit == 'word' else ['abcab', 'b'])
    for same in (tokenizer, tokenizers.loads(tokenizers.dumps(tokenizer))):
        found = same.encode(sequence)
        assert found.dtype == np.int32 and found.tolist() == tokens


def test_capitals_become_small_one_by_one_so_that_labels_stay_where_they_are():
    tokenizer = tokenizers.symbols('char', ['İSTANBUL'], lowercase=True)
    assert len('İSTANBUL'.lower()) == 9 and len(tokenizer.encode('İSTANBUL')) == 8
    assert tokenizer.decode(tokenizer.encode('istanbul')) == '\N{REPLACEMENT CHARACTER}stanbul'
    loaded = tokenizers.loads(tokenizers.dumps(tokenizer))
    assert loaded.lowercase and loaded.encode('STAN').tolist() == tokenizer.encode('stan').tolist()


def test_decoding_leaves_padding_out_and_shows_what_was_unknown():
    assert tokenizers.symbols('word', SENTENCES).decode([2, 1, 5, 0, 0]) == 'the \N{REPLACEMENT CHARACTER} cat'
    assert tokenizers.symbols('char', ['ab']).decode([3, 1, 2, 0]) == 'b\N{REPLACEMENT CHARACTER}a'


def test_the_share_of_unknown_symbols():
    tokenizer = tokenizers.symbols('word', SENTENCES, 3)
    assert tokenizer.unknown_share(SENTENCES) == 5 / 8
    assert tokenizer.unknown_share(['the the', ()]) == tokenizer.unknown_share([]) == 0
