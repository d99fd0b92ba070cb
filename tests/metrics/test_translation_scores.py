"""Scores of translations against plain counts of n-grams, and by the length of the source."""

import logging
import math
import re

import numpy as np
import pytest
from sacrebleu import metrics

from seqjax.errors import FieldError
from seqjax.metrics import has_four_words, scores_by_length, translation_scores
from tests.reference import bleu as reference


def draw(seed, rows=30, shortest=1, keep=0.8):
    """Random sentences, and hypotheses in which words are changed, left out and repeated."""
    rng = np.random.default_rng(seed)
    words = [''.join(rng.choice(list('abcdeäß漢'), rng.integers(1, 6))) for _ in range(40)]
    references = [list(rng.choice(words, rng.integers(shortest, 20))) for _ in range(rows)]
    hypotheses = [[word if rng.random() < keep else rng.choice(words) for word in text
                   for _ in range(rng.choice(3, p=(0.1, 0.85, 0.05)))] for text in references]
    return hypotheses, references


def joined(texts):
    return [' '.join(text) for text in texts]


@pytest.mark.parametrize('seed', range(4))
def test_scores_equal_plain_counts(seed):
    hypotheses, references = draw(seed)
    scores = translation_scores(joined(hypotheses), joined(references))
    expected = reference.bleu(hypotheses, references)
    assert 10 < expected < 90
    assert scores['bleu'] == pytest.approx(expected, rel=1e-12) == scores['tokenised_bleu']
    assert scores['length_ratio'] == sum(map(len, hypotheses)) / sum(map(len, references))
    assert scores['exact_match'] == sum(h == r for h, r in zip(hypotheses, references)) / len(references)


def test_chrf_equals_plain_counts():
    hypotheses, references = map(joined, draw(4, shortest=6))  # with a character n-gram of every order in every text
    expected = reference.chrf(hypotheses, references)
    assert 10 < expected < 90
    assert translation_scores(hypotheses, references)['chrf'] == pytest.approx(expected, rel=1e-12)


def test_tokenised_bleu_cuts_words_and_punctuation_apart():
    references = ["It's 3.5 m long, isn't it?", 'Ein Mann, der "läuft".', 'e-mail: a_b@c.d']
    hypotheses = ["It's 3.5m long, isn't it!", 'Ein Mann der "läuft" .', 'e-mail: a_b@c.d']
    cut = lambda texts: [re.sub(r'([^\w\s])', r' \1 ', text).split() for text in texts]
    scores = translation_scores(hypotheses, references)
    assert scores['tokenised_bleu'] == pytest.approx(reference.bleu(cut(hypotheses), cut(references)), rel=1e-12)
    assert abs(scores['tokenised_bleu'] - scores['bleu']) > 1


def test_every_score_of_sacrebleu_has_its_signature():
    scores = translation_scores(['a b'], ['a c'])
    expected = dict(bleu='nrefs:1 case:mixed tok:13a smooth:exp', tokenised_bleu='tok:none', chrf='nc:6 nw:0')
    for name, words in expected.items():
        assert set(words.split()) < set(scores.pop(f'signature/{name}').split('|'))
    assert sorted(scores) == ['bleu', 'chrf', 'exact_match', 'length_ratio', 'tokenised_bleu']
    assert all(isinstance(score, float) for score in scores.values())


def test_the_ends_of_the_scale():
    texts = joined(draw(5, shortest=8)[1])
    perfect = translation_scores([f' {text}\n' for text in texts], texts)
    assert [perfect[name] for name in ('bleu', 'tokenised_bleu', 'chrf')] == pytest.approx([100] * 3)
    assert perfect['exact_match'] == perfect['length_ratio'] == 1
    empty = translation_scores([''] * len(texts), texts)
    assert {empty[name] for name in ('bleu', 'tokenised_bleu', 'chrf', 'exact_match', 'length_ratio')} == {0}


def test_a_short_corpus_is_punished_for_its_brevity():
    hypotheses, references = draw(6, shortest=10, keep=1)
    hypotheses = [text[:-4] for text in hypotheses]
    scores = translation_scores(joined(hypotheses), joined(references))
    assert scores['length_ratio'] < 0.9
    assert scores['bleu'] == pytest.approx(reference.bleu(hypotheses, references), rel=1e-12)


def test_no_texts_have_no_score():
    scores = translation_scores([], [])
    assert all(math.isnan(scores[name]) for name in ('bleu', 'tokenised_bleu', 'chrf', 'exact_match', 'length_ratio'))
    assert 'tok:13a' in scores['signature/bleu']
    empty = translation_scores([''], [''])
    assert empty['exact_match'] == 1 and math.isnan(empty['length_ratio'])


@pytest.mark.parametrize('references, has', [
    ([], False), (['', '168', '1998'], False), (['a b c', '-3.14', 'x y z'], False), (['a', 'a b c d'], True),
    (['who, me?'], True)])
def test_bleu_of_the_truth_is_something_where_a_text_has_four_words(references, has):
    assert has_four_words(references) == has
    assert (translation_scores(references, references)['bleu'] > 99) == has


def test_unequal_numbers_are_refused():
    with pytest.raises(FieldError, match="^hypotheses='2 texts': must be as many as references: 3$"):
        translation_scores(['a'] * 2, ['a'] * 3)
    with pytest.raises(FieldError, match="^source_lengths='1 numbers': must be as many as hypotheses and .*: 2 and 2$"):
        scores_by_length([1], ['a'] * 2, ['a'] * 2)


def test_nothing_is_said_about_texts_that_look_tokenised(caplog, capsys):
    with caplog.at_level(logging.DEBUG):
        translation_scores(['a b c d .'] * 200, ['a b c d .'] * 200)
    assert not caplog.records and capsys.readouterr() == ('', '')


def test_rows_are_scored_with_those_of_their_length():
    hypotheses, references = draw(7, rows=60, shortest=4)
    lengths = [len(text) for text in references]
    rows = scores_by_length(lengths, joined(hypotheses), joined(references), edges=(4, 10, 15, 30), fewest=1)
    assert [row[:2] for row in rows] == [(4, 9), (10, 14), (15, 29)]
    for first, last, count, score in rows:
        inside = [i for i, length in enumerate(lengths) if first <= length <= last]
        assert count == len(inside)
        expected = reference.bleu([hypotheses[i] for i in inside], [references[i] for i in inside])
        assert score == pytest.approx(expected, rel=1e-12)
    by_match = scores_by_length(lengths, joined(hypotheses), joined(references), edges=(0, 50), metric='exact_match')
    assert by_match == [(0, 49, 60, sum(h == r for h, r in zip(hypotheses, references)) / 60)]


@pytest.mark.parametrize('metric', ['bleu', 'tokenised_bleu', 'chrf', 'exact_match', 'length_ratio'])
def test_only_what_is_shown_by_length_is_computed(metric, monkeypatch):
    hypotheses, references = map(joined, draw(7))
    expected, computed = translation_scores(hypotheses, references)[metric], []
    for cls in (metrics.BLEU, metrics.CHRF):
        monkeypatch.setattr(cls, 'corpus_score', lambda self, *texts, score=cls.corpus_score: (
            computed.append(self), score(self, *texts))[1])
    assert scores_by_length([1] * 30, hypotheses, references, metric=metric) == [(1, 1, 30, expected)]
    assert len(computed) == (metric != 'exact_match')


@pytest.mark.parametrize('counts, edges, expected', [
    ([3, 3, 3], None, [(1, 1, 3), (2, 2, 3), (3, 3, 3)]),
    ([3, 1, 3, 3], None, [(1, 1, 3), (2, 3, 4), (4, 4, 3)]),  # a thin one goes to the next
    ([1, 1, 3, 0, 1], None, [(1, 5, 6)]),  # the last to the one before
    ([1, 1], None, [(1, 2, 2)]),  # too few at all
    ([4, 0, 0, 3], None, [(1, 1, 4), (4, 4, 3)]),  # one without rows is left out
    ([0] * 4 + [4] + [0] * 35 + [4, 5], None, [(4, 5, 4), (40, 41, 4), (42, 43, 5)]),
    ([3, 3, 3, 3], (2, 3, 4), [(2, 2, 3), (3, 3, 3)]),  # what is outside is left out
    ([3, 3], (5, 9), []),
    ([], None, []),
], ids=['equal', 'thin', 'thin at the end', 'too few', 'without rows', 'wider', 'outside', 'all outside', 'nothing'])
def test_bins_are_of_equal_width_and_thin_ones_are_joined(counts, edges, expected):
    lengths = [length for length, count in enumerate(counts, 1) for _ in range(count)]
    texts = ['a b c d'] * len(lengths)
    assert [row[:3] for row in scores_by_length(lengths, texts, texts, edges=edges, fewest=3)] == expected


@pytest.mark.parametrize('seed', range(5))
def test_every_row_is_in_one_bin_and_bins_are_few(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10 ** rng.integers(1, 4), 300)
    rows = scores_by_length(lengths, ['a b c d'] * 300, ['a b c d'] * 300)
    assert 1 < len(rows) <= 20 and sum(count for _, _, count, _ in rows) == 300
    assert all(count >= 20 for _, _, count, _ in rows)
    assert all(last < first for (_, last, _, _), (first, *_) in zip(rows, rows[1:]))
