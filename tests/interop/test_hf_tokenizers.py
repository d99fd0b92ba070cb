"""Tokenizers from Hugging Face's files: the tokens that transformers gives, and the text again."""

import json

import numpy as np
import pytest
import tokenizers

from seqjax import interop
from seqjax.errors import UserError

TEXTS = ['The unbelievable café, opened in 1987!', 'low lower lowest', '日本 x', '  two  blanks\nand a line', '']
WORDS = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'the', 'un', '##bel', '##iev', '##able', 'cafe', ',', 'open', '##ed', 'in', '19',
         '##87', '!', 'low', '##er', '##est', '日', 'two', 'blank', '##s', 'and', 'a', 'line', 'The', 'café']


def write_bert(directory, **settings):
    (directory / 'vocab.txt').write_text('\n'.join(WORDS) + '\n', 'utf-8')
    if settings:
        (directory / 'tokenizer_config.json').write_text(json.dumps(settings))
    return interop.tokenizer_from_hf(directory)


def write_gpt2(directory):
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(TEXTS * 3, vocab_size=290, min_frequency=2, show_progress=False, special_tokens=['<|endoftext|>'])
    made.save_model(str(directory))
    return interop.tokenizer_from_hf(directory)


def pieces(word):
    """The longest piece that there is, then the longest of the rest (Wu et al. 2016, section 4.1)."""
    found, start = [], 0
    while start < len(word):
        end = next((end for end in range(len(word), start, -1) if ('##' if start else '') + word[start:end] in WORDS), None)
        if end is None:
            return ['[UNK]']
        found.append(('##' if start else '') + word[start:end])
        start = end
    return found


def test_words_are_cut_into_the_longest_pieces(tmp_path):
    tokenizer = write_bert(tmp_path)
    words = 'the unbelievable cafe , opened in 1987 !'.split()
    expected = ['[CLS]', *(piece for word in words for piece in pieces(word)), '[SEP]']
    assert [WORDS[token] for token in tokenizer.encode(TEXTS[0])] == expected
    assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == 'the unbelievable cafe, opened in 1987!'
    assert tokenizer.decode(tokenizer.encode('the'), special=True) == '[CLS] the [SEP]'
    assert tokenizer.encode('the', special=False).tolist() == [5] and tokenizer.encode('the').dtype == np.int32
    assert tokenizer.vocabulary == len(WORDS) and tokenizer.token('[MASK]') == 4 and tokenizer.token('no') is None


def test_capitals_and_accents_are_kept_where_the_settings_say_so(tmp_path):
    assert [WORDS[token] for token in write_bert(tmp_path, do_lower_case=False).encode('The café', special=False)] == ['The', 'café']


def test_two_texts_are_told_apart_and_padded_at_their_ends(tmp_path):
    inputs = write_bert(tmp_path)(['low', 'lower low'], ['the café', 'two'])
    assert inputs['input_ids'].tolist() == [[2, 18, 3, 5, 10, 3, 0], [2, 18, 19, 18, 3, 22, 3]]
    assert inputs['token_type_ids'].tolist() == [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 1, 1]]
    assert inputs['attention_mask'].tolist() == [[1, 1, 1, 1, 1, 1, 0], [1] * 7]


def test_rows_are_cut_on_request_and_otherwise_never(tmp_path):
    tokenizer = write_bert(tmp_path)
    assert tokenizer(['low low low low'], max_length=4)['input_ids'].tolist() == [[2, 18, 18, 3]]
    assert tokenizer(['low low low low'])['input_ids'].tolist() == [[2, 18, 18, 18, 18, 3]]
    with pytest.raises(TypeError, match='must be a list of texts'):
        tokenizer('low')


def test_byte_pairs_give_every_text_again_and_no_types(tmp_path):
    tokenizer = write_gpt2(tmp_path)
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer(TEXTS).keys() == {'input_ids', 'attention_mask'}
    assert tokenizer.encode('<|endoftext|>').tolist() == [tokenizer.token('<|endoftext|>')]


@pytest.mark.parametrize('kind', ['bert', 'bert cased', 'gpt2'])
def test_tokens_are_those_of_transformers_also_through_tokenizer_json(kind, tmp_path):
    library = pytest.importorskip('transformers')
    ours = write_gpt2(tmp_path) if kind == 'gpt2' else write_bert(tmp_path, do_lower_case=kind == 'bert')
    theirs = (library.GPT2Tokenizer if kind == 'gpt2' else library.BertTokenizer).from_pretrained(tmp_path)
    (tmp_path / 'json').mkdir()
    theirs.backend_tokenizer.save(str(tmp_path / 'json' / 'tokenizer.json'))
    again = interop.tokenizer_from_hf(tmp_path / 'json')
    for text in TEXTS:
        assert ours.encode(text).tolist() == again.encode(text).tolist() == theirs.encode(text)
    first, second = TEXTS[0], TEXTS[1]
    assert ours.encode(first, second).tolist() == again.encode(first, second).tolist() == theirs(first, second)['input_ids']


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(UserError, match='has neither tokenizer.json, nor vocab.json and merges.txt, nor vocab.txt'):
        interop.tokenizer_from_hf(tmp_path)
    (tmp_path / 'tokenizer.json').write_text('{')
    with pytest.raises(UserError, match='the tokenizer cannot be read: '):
        interop.tokenizer_from_hf(tmp_path)


def test_a_directory_that_is_none(tmp_path):
    with pytest.raises(UserError, match='nowhere: there is no such directory'):
        interop.tokenizer_from_hf(tmp_path / 'nowhere')


@pytest.mark.parametrize('end', ['\n', '\r\n'])
def test_a_line_of_a_vocabulary_ends_nowhere_else(end, tmp_path):
    words = [*WORDS[:18], 'a\u2028b', '\x85', 'x\x0b', *WORDS[18:]]
    (tmp_path / 'vocab.txt').write_bytes((end.join(words) + end).encode())
    tokenizer = interop.tokenizer_from_hf(tmp_path)
    assert [tokenizer.token(word) for word in words] == list(range(len(words))) and tokenizer.vocabulary == len(words)


ADDED = {'<b>': len(WORDS) + 1, '<a>': len(WORDS), 'Zwei': len(WORDS) + 2}


@pytest.mark.parametrize('kind', ['file', 'special', 'settings'])
def test_added_tokens_are_those_of_transformers(kind, tmp_path):
    library = pytest.importorskip('transformers')
    if kind == 'settings':
        flags = dict(lstrip=True, rstrip=False, normalized=False, single_word=False, special=True)
        write_bert(tmp_path, added_tokens_decoder={str(number): dict(flags, content=name) for name, number in ADDED.items()})
    else:
        (tmp_path / 'added_tokens.json').write_text(json.dumps(ADDED))
        if kind == 'special':
            (tmp_path / 'special_tokens_map.json').write_text(json.dumps(dict(extra_special_tokens=['<a>', 'Zwei'])))
    ours, theirs = write_bert(tmp_path), library.BertTokenizer.from_pretrained(tmp_path)
    assert {name: ours.token(name) for name in ADDED} == ADDED and ours.vocabulary == len(WORDS) + 3
    for text in ('low <a> lower<b>', 'Zwei zwei the', '<b><a> low'):
        assert ours.encode(text).tolist() == theirs.encode(text)
        assert ours.decode(ours.encode(text)) == theirs.decode(theirs.encode(text), skip_special_tokens=True)


def test_added_tokens_that_do_not_go_on_from_the_vocabulary_are_refused(tmp_path):
    (tmp_path / 'added_tokens.json').write_text('{"<a>": 99}')
    with pytest.raises(UserError, match="the added token '<a>' has the number 99, and the vocabulary goes on with 30; let transformers"):
        write_bert(tmp_path)
