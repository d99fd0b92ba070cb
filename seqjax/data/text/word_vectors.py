"""Pretrained word vectors from a text file, as GloVe, word2vec and fastText write them: a word, then its numbers."""

import math
import re

import numpy as np

from seqjax.data.readers.lines import File, Malformed

SEED = 0  # of the vectors of words that are not in the file


def load_word_vectors(path, words):
    """(table [V, D] in float32, found [V]) for the V words of a vocabulary, the first of which is padding.

    path: a text file, also .gz; its first line may be a header, 'count D'. It is read line by line, and of lines with other
    words only the number of columns is checked. A word takes the vector of its own spelling, else of its lower case. What
    has neither gets a random vector, with the standard deviation of the numbers that were found; padding gets zeros.
    """
    file = File(path, 'stop', 'data.word_vectors')
    vectors, lines = _read(file, {spelling for word in words[1:] for spelling in _spellings(word)})
    names = [None, *(next((s for s in _spellings(word) if s in vectors), None) for word in words[1:])]
    found = np.array([name is not None for name in names])
    if not found.any():
        some = ', '.join(map(repr, words[1:4]))
        raise file.error(f'has {lines:,} vectors, and none for the {len(words) - 1:,} words of the data, such as {some}')
    known = np.stack([vectors[name] for name in names if name is not None])  # [found, D]
    deviation = known.std(dtype=np.float64)
    table = np.random.default_rng(SEED).normal(0, deviation, (len(words), known.shape[1])).astype(np.float32)
    table[found], table[0] = known, 0
    return table, found


def _spellings(word):
    return word, word.lower()


def _read(file, wanted):
    """({word: vector [D]} of the wanted words, number of all vectors). Of a word that comes twice the first counts."""
    vectors, lines, D = {}, 0, None
    for number, text in file.lines():
        if isinstance(text, Malformed):
            raise file.error(f'{text}; vectors are read from text in UTF-8', number)
        if file.is_blank(text):
            continue
        text = text.replace('\t', ' ').rstrip(' ')  # fastText ends its lines with a blank
        if number == 1 and (header := re.fullmatch('([0-9]+) ([1-9][0-9]*)', text)):
            D = int(header[2])
            continue
        first, D = D is None, D or text.count(' ')
        word = _word(file, number, text, D)
        lines += 1
        if first or (word in wanted and word not in vectors):  # the first, because a file that is none at all shows there
            vector = _vector(file, number, text[len(word) + 1:].split(' '))
            if word in wanted:
                vectors[word] = vector
    if not lines:
        raise file.error('has no vectors')
    return vectors, lines


def _word(file, number, text, D):
    """All but the last D columns: words of GloVe 840B have blanks inside. What follows a blank there is never a number."""
    columns = text.count(' ')
    if columns == D > 0:
        return text[:text.index(' ')]
    if D == 0:
        raise file.error(f'has no numbers after the word {text[:40]!r}', number)
    word = text.rsplit(' ', D)[0]
    if columns < D or math.isfinite(_number(word.rpartition(' ')[2])):
        raise file.error(f'has {columns} numbers after its word, and a vector of this file has {D}', number)
    return word


def _vector(file, number, columns):
    with np.errstate(over='ignore'):  # said below
        values = np.array([_number(text) for text in columns], np.float32)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise file.error(f'number {wrong[0] + 1} of the vector is {columns[wrong[0]]!r}, not a finite number', number)
    return values


def _number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan
