"""Pieces of a unigram model: the likeliest ones, the same in every process, and wherever byte pairs can be."""

import subprocess
import sys
import types

from hypothesis import given, settings, strategies
import numpy as np
import pytest

from seqjax import config as configs
from seqjax import data
from seqjax.data.readers.examples import Example
from seqjax.data import load_codec
from seqjax.data.text import pair_codec, tokenizers
from seqjax.errors import FieldError
from seqjax.special_tokens import END
from tests.data.test_marked_rows import WORDS, load, of
from tests.tiny import tiny_config, write_text

WORDS_OF_TEXT = 'low lower lowest new newer newest wide wider widest slow slower slowest'.split()
TEXT = '\n'.join(' '.join(WORDS_OF_TEXT[i:] + WORDS_OF_TEXT[:i]) for i in range(len(WORDS_OF_TEXT))) + '\nça va, naïve 😀\n'
UNICODE = strategies.text(strategies.characters(codec='utf-8'))


@pytest.fixture(scope='module')
def tokenizer():
    return tokenizers.train('unigram', TEXT, 266)


# ------------------------------------------------------------------------------------------------ any text

@settings(max_examples=300, deadline=None)
@given(text=UNICODE)
def test_any_text_comes_back(tokenizer, text):
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int32 and tokenizer.decode(tokens) == text
    assert tokenizer.sizes()[tokens].sum(axis=0).tolist() == [len(text), len(text.encode())]


@pytest.mark.parametrize('text', ['', ' ', '  a  low ', '\n\n low\n', '\r\n\t\x0b\x1c', '\x01\x07\x1b\x7f\x85\u2028', 'e\u0301',
                                  '👩\u200d👩\u200d👧 🇨🇭', '中文 й \N{NO-BREAK SPACE}', '▁low', '<unk>', 'Ġlow', '\ufeff', '\ufffd'])
def test_strange_text_comes_back_from_what_was_learned_and_from_what_was_saved(tokenizer, text):
    for same in (tokenizer, tokenizers.loads(tokenizers.dumps(tokenizer))):
        assert same.decode(same.encode(text)) == text


def test_all_of_a_text_without_blanks_is_learned():
    made = tokenizers.train('unigram', 'abc' * tokenizers.LONGEST_WORD, 300)
    assert len(made.encode('abc' * 100)) < 100 and made.vocabulary <= 300


@pytest.mark.parametrize('text', ['', 'a', 'ab\n'])
def test_a_text_with_no_pieces_leaves_the_bytes(text):
    made = tokenizers.train('unigram', text, 1000)
    assert made.vocabulary == 256 and made.decode(made.encode('zß')) == 'zß'


# ------------------------------------------------------------------------------------------------ which pieces

def cuts(text):
    """Every way to cut a text into pieces."""
    if not text:
        yield ()
    for end in range(1, len(text) + 1):
        yield from ((text[:end], *rest) for rest in cuts(text[end:]))


@pytest.mark.parametrize('word', ['low', 'slowest', 'wider', 'newwid', 'zlowz'])
def test_a_word_is_cut_into_its_likeliest_pieces(tokenizer, word):
    scores = dict(tokenizer.state()['model']['vocab'])
    best = max(sum(scores[piece] for piece in pieces) for pieces in cuts(word) if all(piece in scores for piece in pieces))
    found = [tokenizer.decode([token]) for token in tokenizer.encode(word)]
    assert ''.join(found) == word and sum(scores[piece] for piece in found) == pytest.approx(best, abs=1e-9)


def test_there_are_as_many_as_asked_for_the_likeliest_first_and_frequent_words_are_whole(tokenizer):
    vocabulary = tokenizer.state()['model']['vocab']
    assert len(vocabulary) == tokenizer.vocabulary == 266 == len(dict(vocabulary))
    assert [score for _, score in vocabulary] == sorted((score for _, score in vocabulary), reverse=True)
    assert len(tokenizer.encode(TEXT)) < len(TEXT.encode()) / 2
    assert tokenizers.train('unigram', TEXT, 257).vocabulary == 257


@pytest.mark.parametrize('vocabulary', [1, 255, 256])
def test_too_few_are_refused(vocabulary):
    with pytest.raises(FieldError) as caught:
        tokenizers.train('unigram', TEXT, vocabulary)
    assert str(caught.value) == f'data.vocabulary={vocabulary}: pieces are 256 bytes and longer ones; ask for more'


# ------------------------------------------------------------------------------------------------ every time the same

def test_two_processes_learn_the_same(tmp_path):
    path = write_text(tmp_path / 'text.txt', 5000)
    code = ('import sys; from seqjax.data.text import tokenizers; '
            f'print(tokenizers.dumps(tokenizers.train("unigram", open({str(path)!r}).read(), 400)))')
    printed = [subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    here = [tokenizers.dumps(tokenizers.train('unigram', path.read_text(), 400)) + '\n' for _ in range(3)]
    assert len(printed[0]) > 1000 and {*printed, *here} == {printed[0]}


def test_what_the_library_leaves_to_chance_is_settled():
    """The order of pieces, the last digits, and which of the bytes it did without comes first."""
    one = [['a', -1.0], ['b', -3.0], ['c', -3.0], ['x', -8.9999], ['y', -9.0]]
    other = [['c', -3.0000000000000004], ['b', -3.0], ['a', -1.0000000000000002], ['y', -8.9999], ['x', -9.0]]
    expected = [('a', -1.0), ('b', -3.0), ('c', -3.0), ('x', -9.0), ('y', -9.0)]
    assert tokenizers._settled(one) == tokenizers._settled(other) == expected


# ------------------------------------------------------------------------------------------------ where byte pairs can be

@settings(max_examples=50, deadline=None)
@given(text=UNICODE)
def test_pairs_come_back_with_special_tokens_where_they_are_for_byte_pairs(text):
    made = pairs('unigram')
    tokens = made.target(text)
    assert tokens[-1] == END and (tokens[:-1] > END).all() and tokens.max() < made.for_model()['target_vocabulary']
    assert made.text(tokens) == text


def pairs(kind, made={}):
    """A codec of pairs, learned once for each kind."""
    if kind not in made:
        options = types.SimpleNamespace(tokenizer=kind, vocabulary=280, shared_vocabulary=True, lowercase=False)
        examples = [Example(f'{one} {other}', other) for one in WORDS_OF_TEXT for other in WORDS_OF_TEXT]
        made[kind] = pair_codec.learn_pairs(examples, options)
    return made[kind]


def test_the_first_word_has_the_tokens_it_has_elsewhere_and_what_is_saved_reads_the_same():
    made = pairs('unigram')
    one = made.target('slowest')[:-1].tolist()
    assert made.target('slowest slowest')[:-1].tolist() == one + one
    again = load_codec(made.dumps())
    assert again.dumps() == made.dumps() and again.as_options()['tokenizer'] == 'unigram'
    assert again.source('lower 😀').tolist() == made.source('lower 😀').tolist()


def options_of(path, task, **changed):
    return tiny_config(task=task, data=dict(source=f'file:{path}', tokenizer='unigram', vocabulary=300) | changed).data


def test_sentinels_are_read_and_written(tmp_path):
    how = data.load(options_of(write_text(tmp_path / 'text.txt', 3000), 'span_corruption'), 'span_corruption').codec
    side, tokens = how.source_side, how.source('a dog<extra_id_0> sees <extra_id_7>')
    assert (tokens[tokens >= side.first_sentinel] - side.first_sentinel).tolist() == [0, 7]
    assert how.text(tokens) == 'a dog<extra_id_0> sees<extra_id_7>'  # the blank belongs to the word after it
    assert side.size == 4 + side.tokenizer.vocabulary + 100


@pytest.mark.parametrize('task', ['language_model', 'masked_lm', 'span_corruption'])
def test_a_run_that_starts_again_reads_the_same(task, tmp_path):
    options = options_of(write_text(tmp_path / 'text.txt', 3000), task)
    made = data.load(options, task)
    again = data.load(options, task, data.saved_codec(made.files().get))
    inherited = data.load(options, task, data.inherited(made.codec, task))
    assert again.files() == inherited.files() == made.files() and again.facts() == made.facts()
    wrong = options.copy_and_resolve_references()
    wrong.tokenizer = 'bpe'
    with pytest.raises(FieldError, match="data.tokenizer='bpe': the run that this one starts from has 'unigram'; write that"):
        data.load(wrong, task, data.saved_codec(made.files().get))


def test_a_word_in_pieces_has_its_label_at_the_first():
    tags = ('D', 'N', None, 'D', 'N', 'A')
    made = load(of([Example(WORDS, tags)] * 3), 'tagging', tokenizer='unigram', vocabulary=260)
    how, row = made.codec, made.rows['train'][0]
    assert row['inputs'].tolist() == [how.marks.start, *how.tokens(' '.join(WORDS)), how.marks.end]
    assert row['weights'][how.places(WORDS)].tolist() == [1, 1, 0, 1, 1, 1]
    assert load_codec(how.dumps()).tokens(WORDS).tolist() == how.tokens(WORDS).tolist()


@pytest.mark.parametrize('model, task, source', [('reader', '', 'reviews'), ('bert', 'masked_lm', 'python')])
def test_capitals_are_refused_as_for_byte_pairs(model, task, source):
    with pytest.raises(FieldError, match="is for characters and words, and config.data.tokenizer='unigram'; set it to False"):
        configs.validate(tiny_config(model, task=task, data=dict(source=source, tokenizer='unigram', lowercase=True)))
