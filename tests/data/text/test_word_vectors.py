"""Pretrained vectors: the formats that are around, what becomes of other words, and files that are wrong."""

import gzip
import re

import numpy as np
import pytest

from seqjax.data.text.word_vectors import load_word_vectors
from seqjax.errors import FieldError

WORDS = ('', '�', 'the', 'Paris', 'CAT', 'dog', 'name @ home')
NUMBERS = np.random.default_rng(0).normal(3, 1, (6, 4)).round(4).astype(np.float32)
NAMES = ['the', 'cat', 'paris', 'Paris', 'bird', 'name @ home']  # in the order of the file


def line(name, numbers, blank=' '):
    return blank.join([name, *map(str, numbers.tolist())])


LINES = [line(name, numbers) for name, numbers in zip(NAMES, NUMBERS)]


@pytest.fixture
def written(tmp_path):
    def write(lines, name='vectors.txt'):
        path = tmp_path / name
        content = lines if isinstance(lines, bytes) else '\n'.join([*lines, '']).encode('utf-8')
        path.write_bytes(gzip.compress(content) if name.endswith('.gz') else content)
        return str(path)

    return write


FILES = {
    'GloVe': LINES,
    'word2vec': ['6 4', *(text + ' ' for text in LINES)],
    'tabs and returns': [line(name, numbers, '\t') + '\r' for name, numbers in zip(NAMES, NUMBERS)],
    'a blank line': [*LINES[:2], '', *LINES[2:], ' '],
    'a word twice': [*LINES, line('the', NUMBERS[1]), line('Paris', NUMBERS[0])],
    'other words': [*LINES, line('\xa0', NUMBERS[0]), line('. . .', NUMBERS[0]), line('at x@y.com', NUMBERS[0]),
                    'zebra x 0.1 nan 3', line('5', NUMBERS[0])],
}


@pytest.mark.parametrize('lines', FILES.values(), ids=list(FILES))
@pytest.mark.parametrize('name', ['vectors.txt', 'vectors.vec.gz'])
def test_words_get_their_vectors(lines, name, written):
    table, found = load_word_vectors(written(lines, name), WORDS)
    assert table.shape == (len(WORDS), 4) and table.dtype == np.float32
    np.testing.assert_array_equal(found, [False, False, True, True, True, False, True])
    # 'Paris' has its own vector, 'CAT' that of its lower case.
    np.testing.assert_array_equal(table[found], NUMBERS[[0, 3, 1, 5]])
    np.testing.assert_array_equal(table[0], np.zeros(4))


def test_padding_is_zero_even_where_the_file_has_its_name(written):
    table, found = load_word_vectors(written(LINES), ('the', 'cat', 'The'))
    np.testing.assert_array_equal(table, [np.zeros(4), NUMBERS[1], NUMBERS[0]])
    assert found.tolist() == [False, True, True]


def test_other_words_are_random_as_wide_as_the_found_ones_and_always_the_same(written):
    words = ['', *NAMES, *(f'unknown {i}' for i in range(3000))]
    table, found = load_word_vectors(written(LINES), words)
    again, _ = load_word_vectors(written(LINES), words)
    np.testing.assert_array_equal(table, again)
    random = table[~found][1:]
    assert len(random) == 3000 == len(np.unique(random, axis=0))
    mean = sum(float(x) for x in NUMBERS.ravel()) / NUMBERS.size
    deviation = (sum((float(x) - mean) ** 2 for x in NUMBERS.ravel()) / NUMBERS.size) ** 0.5
    np.testing.assert_allclose([random.mean(), random.std()], [0, deviation], atol=0.05)


GOOD = LINES[0]
WRONG = {
    'a number too few': ([GOOD, 'cat 1 2 3'], 'line 2: has 3 numbers after its word, and a vector of this file has 4'),
    'a number too many': ([GOOD, 'cat 1 2 3 4 5'], 'line 2: has 5 numbers after its word, and a vector of this file has 4'),
    'also for other words': ([GOOD, 'zebra 1 2 3'], 'line 2: has 3 numbers after its word, and a vector of this file has 4'),
    'not as the header says': (['2 3', GOOD], 'line 2: has 4 numbers after its word, and a vector of this file has 3'),
    'only a word': ([GOOD, 'cat'], 'line 2: has 0 numbers after its word, and a vector of this file has 4'),
    'only words': (['cat', 'dog'], "line 1: has no numbers after the word 'cat'"),
    'NaN': ([GOOD, 'cat 1 2 nan 4'], "line 2: number 3 of the vector is 'nan', not a finite number"),
    'too large': ([GOOD, 'cat 1 -1e39 3 4'], "line 2: number 2 of the vector is '-1e39', not a finite number"),
    'no number': ([GOOD, 'cat 1 2 3 4,0'], "line 2: number 4 of the vector is '4,0', not a finite number"),
    'no file of vectors': (['It was the best of times'], "line 1: number 1 of the vector is 'was', not a finite number"),
    'no UTF-8': (b'the 1 2\n\xff\xfe 1 2\n', 'line 2: is not UTF-8: byte 1 is 0xff; vectors are read from text in UTF-8'),
    'empty': (b'', 'has no vectors'),
    'nothing but a header': (['0 4'], 'has no vectors'),
    'another language': (['chat 1 2', 'chien 3 4'],
                         "has 2 vectors, and none for the 6 words of the data, such as '�', 'the', 'Paris'"),
}


@pytest.mark.parametrize('lines, message', WRONG.values(), ids=list(WRONG))
def test_a_wrong_file_is_refused_with_its_line(lines, message, written):
    path = written(lines)
    with pytest.raises(FieldError, match=f'^{re.escape(f"data.word_vectors={path!r}: {message}")}$'):
        load_word_vectors(path, WORDS)


def test_a_file_that_cannot_be_read():
    with pytest.raises(FieldError, match="^data.word_vectors='nowhere.txt': no such file"):
        load_word_vectors('nowhere.txt', WORDS)
