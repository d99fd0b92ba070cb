"""A text that is tokenised once: in parts that change no token, kept on disk, read by slices, made again where it is damaged."""

import hashlib
import itertools
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from seqjax import data
from seqjax.data import cache, mapped
from seqjax.data.batches.packing import split_documents
from seqjax.data.text import sources, tokenised, tokenizers
from seqjax.data.text.next_sentence import sentences
from seqjax.errors import FieldError
from tests.tiny import tiny_config

LINES = ['def  f(x):\n', '\n', '   return x.Σ  # ΑΣ dé f\u2028é\n', '\r\n', 'a b c\r', '\t\n', "don't 12 3 x_y 🙂\n", ' \n', 'ΑΣ\n']
TEXT = ''.join(random.Random(0).choices(LINES, k=400)) + 'no line end'
KINDS = ['char', 'byte', 'word', 'bpe', 'unigram']


@pytest.fixture(autouse=True)
def small_parts(monkeypatch, tmp_path):
    """Parts of about 50 characters, read in chunks of 7 bytes, and a cache of their own."""
    monkeypatch.setattr(tokenizers, 'PART', 50)
    monkeypatch.setattr(sources, 'CHUNK', 7)
    monkeypatch.setenv('SEQJAX_CACHE', str(tmp_path / 'cache'))


def write(path, text=TEXT, age=10):
    """A text file that was written `age` seconds ago."""
    path.write_bytes(text.encode())
    os.utime(path, (time.time() - age,) * 2)
    return path


def corpus(path, **changed):
    return data.load_corpus(tiny_config(data={**dict(source=f'file:{path}', vocabulary=300), **changed}).data)


def entries(tmp_path, kind):
    return sorted((tmp_path / 'cache' / 'tokens').glob(f'{kind}_*'))


# ------------------------------------------------------------------------------------------------ parts

@pytest.mark.parametrize('kind', KINDS)
def test_parts_change_neither_what_is_learned_nor_a_token(kind, monkeypatch):
    chunks = [TEXT[i:i + 3] for i in range(0, len(TEXT), 3)]
    in_parts = tokenizers.train(kind, chunks, 300)
    found = [in_parts.encode(part) for part in tokenizers.parts(chunks, in_parts.boundary)]
    assert len(found) > 10
    monkeypatch.setattr(tokenizers, 'PART', 10 ** 9)
    whole = tokenizers.train(kind, TEXT, 300)
    assert tokenizers.dumps(whole) == tokenizers.dumps(in_parts)
    np.testing.assert_array_equal(np.concatenate(found), whole.encode(TEXT))


@pytest.mark.parametrize('kind', ['bpe', 'unigram'])
def test_a_line_that_does_not_end_is_cut_between_words(kind):
    text = TEXT.replace('\n', ' ')
    made = tokenizers.train(kind, text, 300)
    found = [made.encode(part) for part in tokenizers.parts([text], made.boundary)]
    assert len(found) > 1
    words = made._tokenizer.pre_tokenizer.pre_tokenize_str
    assert sum(len(words(part)) for part in tokenizers.parts([text], made.boundary)) == len(words(text))


@pytest.mark.parametrize('separator', ['\n', '\n\n', ' '])
def test_documents_are_those_of_the_whole_text(separator):
    found, document = [], ''
    for part, end in tokenised._documents([TEXT[i:i + 5] for i in range(0, len(TEXT), 5)], separator, tokenizers.at_line_end):
        document += part
        if end:
            found.append(document)
            document = ''
    assert found == split_documents(TEXT, separator) and not document


@pytest.mark.parametrize('separator', ['', '\n\n'])
def test_sentences_are_those_of_the_whole_text(separator):
    chunks = [TEXT[i:i + 5] for i in range(0, len(TEXT), 5)]
    found, of_document = [], []
    for sentence, _, end in tokenised._units(chunks, separator, 'sentences', None):
        of_document.append(sentence)
        if end:
            found.append(of_document)
            of_document = []
    documents = split_documents(TEXT, separator) if separator else [TEXT]
    assert found == [made for made in map(sentences, documents) if made] and not of_document


# ------------------------------------------------------------------------------------------------ on disk

@pytest.mark.parametrize('kind', KINDS)
def test_tokens_on_disk_are_those_of_the_text(kind, tmp_path):
    made = corpus(write(tmp_path / 'text.txt'), tokenizer=kind)
    text = data.load_text(f'file:{tmp_path / "text.txt"}')
    assert text.train + text.validation == TEXT
    for part, tokens in ((text.train, made.train), (text.validation, made.validation)):
        expected = made.tokenizer.encode(part)
        np.testing.assert_array_equal(np.asarray(tokens), expected)
        assert len(tokens) == tokens.size == len(expected) and tokens[3:9].tolist() == expected[3:9].tolist()
        assert tokens[3:9].dtype == np.int32 == tokens.dtype
    assert made.sha256 == hashlib.sha256(f'{len(text.train)} {TEXT}'.encode()).hexdigest()


def test_a_second_run_reads_no_text_and_learns_nothing(tmp_path, monkeypatch):
    path = write(tmp_path / 'text.txt')
    first = corpus(path, tokenizer='bpe')
    for module, name in ((sources, '_file_text'), (tokenizers, 'train'), (tokenised, '_write')):
        monkeypatch.setattr(module, name, lambda *arguments: pytest.fail('the text is read again'))
    second = corpus(path, tokenizer='bpe')
    assert second.facts() == first.facts() and second.files() == first.files()
    np.testing.assert_array_equal(np.asarray(second.train), np.asarray(first.train))


def test_another_text_under_the_same_name_is_read(tmp_path):
    path = write(tmp_path / 'text.txt', age=20)
    first = corpus(path)
    write(path, TEXT.swapcase(), age=10)
    assert corpus(path).sha256 != first.sha256
    write(path, age=0)  # so lately that it may be written again within the same tick of the clock
    assert corpus(path).sha256 == first.sha256
    path.write_bytes(TEXT.swapcase().encode())
    assert corpus(path).sha256 != first.sha256


@pytest.mark.parametrize('harm', [
    lambda file: file.write_bytes(file.read_bytes()[:-1]), lambda file: file.unlink(),
    lambda file: file.write_bytes(file.read_bytes()[:-1] + b'\xff')], ids=['cut', 'gone', 'changed'])
@pytest.mark.parametrize('name', ['train.npy', 'validation_ends.npy', 'entry.json'])
def test_a_damaged_entry_is_made_again(name, harm, tmp_path):
    path = write(tmp_path / 'text.txt')
    expected = np.asarray(corpus(path).train)
    entry, = entries(tmp_path, 'tokens')
    before = {file.name: file.read_bytes() for file in entry.iterdir()}
    harm(entry / name)
    np.testing.assert_array_equal(np.asarray(corpus(path).train), expected)
    assert {file.name: file.read_bytes() for file in entry.iterdir()} == before
    assert len(list(entry.parent.iterdir())) == 3  # the text, the tokenizer and the tokens; nothing is left beside


def test_blocks_of_a_large_file_are_verified(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, 'BLOCK', 8)
    path = tmp_path / 'file'
    path.write_bytes(bytes(range(256)) * 8)
    before = cache._sample(path)
    starts = list(cache._starts(2048))
    assert len(starts) == cache.BLOCKS and starts[0] == 0 and starts[-1] == 2040
    with open(path, 'r+b') as file:
        file.seek(2047)
        file.write(b'\0')
    assert before[0] == cache._sample(path)[0] == 2048 and before[1] != cache._sample(path)[1]


def test_where_nothing_can_be_kept_a_text_is_read_all_the_same(tmp_path, monkeypatch):
    (tmp_path / 'cache').write_text('a file')
    monkeypatch.setattr(cache.tempfile, 'gettempdir', lambda: str(tmp_path))
    assert len(corpus(write(tmp_path / 'text.txt')).train) > 100
    assert list(tmp_path.glob('seqjax_tokens_*/tokens_*'))


def test_pages_are_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, 'READS', 2)
    made = corpus(write(tmp_path / 'text.txt'))
    expected = np.asarray(made.train)
    for i in range(20):
        np.testing.assert_array_equal(made.train[i:i + 5], expected[i:i + 5])


def test_a_run_does_not_hold_its_text(tmp_path):
    """A second process reads rows of a text of 64 MB and needs little more memory than for a text of 1 MB."""
    size = ('import sys; from seqjax import data; from tests.tiny import tiny_config\n'
            'options = tiny_config(data=dict(source=f"file:{sys.argv[1]}", tokenizer="byte")).data\n'
            'made = data.load_corpus(options).training_batches(batch_size=8, seed=0)\n'
            'for step in range(50): made[step]\n'
            'print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])')
    peak = {}
    for megabytes in (1, 64):
        path = write(tmp_path / f'{megabytes}.txt', 'some words and a line end\n' * (megabytes * 40_000))
        for _ in range(2):
            done = subprocess.run([sys.executable, '-c', size, str(path)], capture_output=True, text=True, check=True)
        peak[megabytes] = int(done.stdout) / 1024
    assert peak[64] - peak[1] < 40, peak


# ------------------------------------------------------------------------------------------------ what a text may be

@pytest.mark.parametrize('names', ['{train,valid,test}', '{train,dev}'])
def test_parts_of_a_text_are_files_of_their_own(names, tmp_path):
    texts = dict(zip(('train', 'validation', 'test'), (TEXT, TEXT[100:400], TEXT[50:300] + 'ŧ')))
    for name, text in zip(names[1:-1].split(','), texts.values()):
        write(tmp_path / f'{name}.txt', text)
    made = corpus(tmp_path / f'{names}.txt')
    splits = list(texts)[:names.count(',') + 1]
    assert list(made.splits) == splits
    for split in splits:
        assert made.tokenizer.decode(made.parts[split].tokens) == texts[split]
        rows = [row for batch in made.evaluation_batches(batch_size=4, split=split) for row in zip(batch['targets'], batch['weights'])]
        counted = list(itertools.chain(*(target[weight > 0] for target, weight in rows)))
        assert made.tokenizer.decode(counted) == texts[split][1:]
    facts = made.facts()
    if len(splits) == 3:
        assert facts['test_tokens'] == 251 and '251 test tokens' in str(made)
        write(tmp_path / 'test.txt', TEXT[51:300] + 'ŧ')
        assert corpus(tmp_path / f'{names}.txt').sha256 != facts['sha256']
    else:
        assert facts['sha256'] == hashlib.sha256(f'{len(TEXT)} {TEXT}{TEXT[100:400]}'.encode()).hexdigest()


def test_a_masked_text_has_a_test_split_too(tmp_path):
    for name in ('train', 'valid', 'test'):
        write(tmp_path / f'{name}.txt')
    config = tiny_config('bert', task='masked_lm', data=dict(source=f'file:{tmp_path}/{{train,valid,test}}.txt'))
    made = data.load(config.data, 'masked_lm')
    assert list(made.splits) == ['train', 'validation', 'test']
    assert len(list(made.evaluation_batches(batch_size=8, split='test'))) > 1


@pytest.mark.parametrize('encoding', ['latin-1', 'cp1252', 'utf-8'])
def test_a_text_may_have_another_encoding(encoding, tmp_path):
    text = 'Zwölf Boxkämpfer\n' * 20
    (tmp_path / 'text.txt').write_bytes(text.encode(encoding))
    made = corpus(tmp_path / 'text.txt', encoding=encoding)
    assert made.tokenizer.decode(made.train) + made.tokenizer.decode(made.validation) == text
    (tmp_path / 'films.tsv').write_bytes('schön\tgut\nöde\tschlecht\nschöner\tgut\nöder\tschlecht\n'.encode(encoding))
    config = tiny_config('reader', data=dict(source=f'file:{tmp_path / "films.tsv"}', encoding=encoding, held_out=0.5))
    assert 'ö' in data.load(config.data, 'classification').tokenizer.symbols


@pytest.mark.parametrize('source, encoding, sentence', [
    ('file:t.txt', 'utf-16', "data.encoding='utf-16': is no encoding in which a line end is one byte; write 'utf-8', 'latin-1'"),
    ('file:t.txt', 'latin', "data.encoding='latin': is no encoding in which a line end is one byte"),
])
def test_an_encoding_that_means_nothing_is_refused(source, encoding, sentence):
    if encoding == 'latin':  # Python takes it for latin-1
        encoding, sentence = 'latin-17', sentence.replace("'latin'", "'latin-17'")
    with pytest.raises(FieldError) as caught:
        data.load(tiny_config(data=dict(source=source, encoding=encoding)).data, 'language_model')
    assert str(caught.value).startswith(sentence)


def test_what_is_not_utf_8_is_found_in_any_chunk(tmp_path):
    (tmp_path / 'text.txt').write_bytes('é\n'.encode() * 50 + b'ab\xe9c\n')
    with pytest.raises(FieldError, match='line 51: byte 152 of the file is not UTF-8; convert it first, or name its encoding'):
        corpus(tmp_path / 'text.txt')


# ------------------------------------------------------------------------------------------------ words

def test_words_of_a_language_model_keep_line_ends(tmp_path):
    """As in the literature: `open(file).read().replace('\\n', '<eos>')` of the Penn Treebank, blanks between words."""
    text = 'the cat sat\n\n the dog <unk>\nend'
    path = write(tmp_path / 'text.txt', f'{text}\n' * 20)
    made = corpus(path, tokenizer='word')
    words = made.tokenizer
    assert [words.symbols[token] for token in words.encode(text)] == [
        'the', 'cat', 'sat', '<eos>', '<eos>', 'the', 'dog', '<unk>', '<eos>', 'end']
    assert words.decode(words.encode(text)) == 'the cat sat\n\nthe dog <unk>\nend'
    again = tokenizers.loads(tokenizers.dumps(words))
    assert again.encode(text).tolist() == words.encode(text).tolist()
    old = tokenizers.loads('{"kind": "symbol", "state": {"unit": "word", "symbols": ["the", "cat"], "lowercase": false}}')
    assert old.encode(text).tolist() == [2, 3, 1, 2, 1, 1, 1]  # a run of before goes on without line ends


def test_the_share_of_unknown_words_is_said_and_warned_of(tmp_path):
    path = write(tmp_path / 'text.txt', ''.join(f'the word{i} the\n' for i in range(90)))
    few = corpus(path, tokenizer='word', vocabulary=4)  # 'the' and line ends
    assert few.facts()['unknown_share'] == pytest.approx(0.25, abs=0.01)
    assert few.report.endswith('25.5% of the tokens are unknown words: a vocabulary of 4 words is small for this text; raise '
                               'config.data.vocabulary')
    enough = corpus(path, tokenizer='word', vocabulary=0)
    assert 0 < enough.unknown_share < 0.05 and 'config.data.vocabulary' not in enough.report
    assert corpus(path).unknown_share is None and corpus(path).report == '' and 'unknown_share' not in corpus(path).facts()
