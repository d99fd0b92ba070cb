"""Two texts a row: half of the second ones follow, the others are from elsewhere, and nothing but the text tells which."""

import itertools

import numpy as np
import pytest

from seqjax.data.text.next_sentence import ELSEWHERE, FOLLOWS, SentencePairs, sentences

ROOM = 20


def made(documents, room=ROOM):
    """documents: lists of the lengths of their sentences. A token says where it stands: they are 0, 1, 2, ..."""
    lengths = list(itertools.chain(*documents))
    return SentencePairs(np.arange(sum(lengths), dtype=np.int32), np.cumsum(lengths),
                         np.cumsum([len(document) for document in documents]), room)


def ragged(seed, documents, most=30, longest=9):
    rng = np.random.default_rng(seed)
    return [rng.integers(1, longest, rng.integers(1, most)).tolist() for _ in range(documents)]


def test_a_sentence_is_a_line_with_the_blank_ones_after_it():
    text = '\n\n a\nb\n\n  \nc d\n'
    assert sentences(text) == [' a\n', 'b\n\n  \n', 'c d\n'] and ''.join(sentences(text)) == text.lstrip('\n')
    assert sentences('a') == ['a'] and sentences('') == sentences('\n \n') == []


def test_every_sentence_of_a_document_is_in_one_passage():
    for seed in range(20):
        documents = ragged(seed, 6)
        of_document = np.repeat(np.arange(6), [len(document) for document in documents])
        found = made(documents).passages
        for first, last, begin, end in found:
            assert last - first >= 2 and len(set(of_document[first:last])) == 1
            assert (of_document[begin:end] == of_document[first]).all() and end - begin == len(documents[of_document[first]])
        covered = np.concatenate([np.arange(first, last) for first, last, *_ in found])
        alone = [i for i in range(len(of_document)) if len(documents[of_document[i]]) == 1]
        assert sorted([*covered, *alone]) == list(range(len(of_document)))


@pytest.mark.parametrize('documents', [[[5] * 40], ragged(1, 1, most=60), ragged(2, 8), ragged(3, 30, most=4), [[50, 3, 50, 4] * 5]])
def test_labels_are_right_and_rows_never_too_long(documents):
    pairs, rng, labels = made(documents), np.random.default_rng(0), []
    several = len(documents) > 1
    document_of = np.repeat(np.arange(len(documents)), [sum(document) for document in documents])
    for i in range(len(pairs)):
        for _ in range(20):
            (first, second), more = pairs.drawn(i, rng)
            assert 0 < len(first) and 0 < len(second) and len(first) + len(second) <= ROOM
            for text in (first, second):
                assert (np.diff(text) == 1).all()  # a piece of the text as it stands there
                assert len(set(document_of[text])) == 1
            assert second[0] in (0, *pairs.ends)  # begins with a sentence
            follows = second[0] == first[-1] + 1
            assert follows == (more['next'] == FOLLOWS)
            if several:
                assert (document_of[first[0]] == document_of[second[0]]) == (more['next'] == FOLLOWS)
            elif more['next'] == ELSEWHERE:
                begin, end = (pairs.ends[j - 1] if j else 0 for j in pairs.passages[i][:2])
                assert not np.isin(second, np.arange(begin, end)).any()
            labels.append(more['next'])
    assert abs(np.mean(labels) - 0.5) < 5 * np.sqrt(0.25 / len(labels))


def test_lengths_do_not_tell_the_answer():
    """A guess by the length of either text, the best there is, is no better than chance."""
    pairs, rng = made([np.random.default_rng(0).integers(3, 12, 3000).tolist()], room=60), np.random.default_rng(1)
    drawn = [pairs.drawn(int(i), rng) for i in rng.integers(len(pairs), size=6000)]
    labels = np.array([more['next'] for _, more in drawn])
    for text in (0, 1):
        lengths = np.array([len(texts[text]) for texts, _ in drawn])
        best = max(abs(np.mean((lengths > limit) == labels) - 0.5) for limit in range(61))
        assert best < 0.025  # the best of 60 limits, each within 0.02 by chance


def test_the_same_numbers_draw_the_same_row():
    pairs = made(ragged(4, 5))
    for i in range(len(pairs)):
        one, other = (pairs.fixed(i, np.random.default_rng((7, i))) for _ in range(2))
        assert all((a == b).all() for a, b in zip(one[0], other[0])) and one[1] == other[1]
