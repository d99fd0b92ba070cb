"""Where text comes from: the standard library or a file; and the text as tokens."""

import gzip

import pytest

from seqjax import data
from seqjax.errors import FieldError
from tests.tiny import tiny_config, write_text

TEXT = 'Zwölf Boxkämpfer\njagen Viktor 🙂\r\n' * 10


def test_the_standard_library_is_a_large_ascii_text_and_the_same_every_time():
    text = data.load_text('python')
    whole = text.train + text.validation
    assert whole.isascii() and len(whole) > 2_000_000
    assert 'def dedent(text):' in whole  # textwrap.py
    assert data.load_text('python') == text


@pytest.mark.parametrize('held_out', [0.1, 0.25, 0.5])
def test_the_last_part_of_a_text_is_held_out(held_out, tmp_path):
    path = write_text(tmp_path / 'words.txt', characters=1000)
    text = data.load_text(f'file:{path}', held_out=held_out)
    assert len(text.validation) == 1000 * held_out
    assert text.train + text.validation == path.read_text('utf-8')


@pytest.mark.parametrize('name, write', [
    ('text.txt', lambda path, content: path.write_bytes(content)),
    ('text.txt.gz', lambda path, content: path.write_bytes(gzip.compress(content))),
    ('a: b', lambda path, content: path.write_bytes(content)),
])
def test_a_file_is_read_byte_for_byte_plain_or_compressed(name, write, tmp_path):
    write(tmp_path / name, TEXT.encode('utf-8'))
    text = data.load_text(f'file:{tmp_path / name}')
    assert text.train + text.validation == TEXT


def test_a_path_may_start_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    (tmp_path / 'text.txt').write_text('x' * 100)
    assert len(data.load_text('file:~/text.txt').train) == 90


@pytest.mark.parametrize('source, content, reason', [
    ('web:page', None, "write 'python', 'file:PATH' or 'tfds:NAME'"),
    ('file:', None, "write 'python', 'file:PATH' or 'tfds:NAME'"),
    ('tfds:', None, "write 'python', 'file:PATH' or 'tfds:NAME'"),
    ('python:x', None, "write 'python', 'file:PATH' or 'tfds:NAME'"),
    ('file:missing.txt', None, 'no such file (looked in '),
    ('file:empty.txt', b'', 'the file is empty'),
    ('file:latin.txt', 'abcé'.encode('latin-1'), 'line 1: byte 3 of the file is not UTF-8; convert it first'),
    ('file:fake.gz', b'plain text', 'cannot be read: Not a gzipped file'),
    ('file:cut.gz', gzip.compress(b'line\n' * 200 + b'a' * 1000, mtime=0)[:-10], 'line 201: the compressed data ends here or is '
     'damaged (Compressed file ended before the end-of-stream marker was reached); copy the file again'),
    ('file:.', None, 'cannot be read: '),
])
def test_what_cannot_be_read_is_refused_by_name(source, content, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / source.removeprefix('file:')).write_bytes(content)
    with pytest.raises(FieldError) as caught:
        data.load_text(source)
    assert str(caught.value).startswith(f'data.source={source!r}: {reason}')


@pytest.mark.parametrize('tokenizer', ['char', 'byte', 'bpe'])
def test_a_corpus_is_the_text_as_tokens_and_knows_it_again(tokenizer, tmp_path):
    path = write_text(tmp_path / 'words.txt', characters=1000)
    options = tiny_config(data=dict(source=f'file:{path}', tokenizer=tokenizer, vocabulary=270)).data
    corpus = data.load_corpus(options)
    assert corpus.tokenizer.decode(corpus.train) + corpus.tokenizer.decode(corpus.validation) == path.read_text('utf-8')
    assert corpus.facts() == dict(source=options.source, sha256=corpus.sha256, train_tokens=len(corpus.train),
                                  validation_tokens=len(corpus.validation), vocabulary=corpus.tokenizer.vocabulary)
    assert data.load_corpus(options).sha256 == corpus.sha256
    options.held_out = 0.2  # the same characters, cut elsewhere, are another text
    assert data.load_corpus(options).sha256 != corpus.sha256


def test_characters_that_only_the_held_out_part_has_are_known(tmp_path):
    (tmp_path / 'text.txt').write_text('a' * 90 + 'b' * 10)
    options = tiny_config(data=dict(source=f'file:{tmp_path / "text.txt"}', tokenizer='char')).data
    corpus = data.load_corpus(options)
    assert corpus.tokenizer.vocabulary == 2
    assert corpus.validation.tolist() == [1] * 10


def test_a_saved_tokenizer_is_used_and_not_made_anew(tmp_path):
    (tmp_path / 'text.txt').write_text('ba' * 50)
    options = tiny_config(data=dict(source=f'file:{tmp_path / "text.txt"}', tokenizer='char')).data
    corpus = data.load_corpus(options, data.TextCodec(data.CharTokenizer('Aabc'), 8))
    assert corpus.train[:2].tolist() == [2, 1]
