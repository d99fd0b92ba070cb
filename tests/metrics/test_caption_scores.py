"""Scores of captions against published examples, the numbers of COCO's own code, and brute force."""

import math
import random

import pytest

from seqjax.errors import FieldError
from seqjax.metrics import caption_scores
from seqjax.metrics.captions import CAPTION_SCORES, caption_words
from seqjax.metrics.cider import cider_d, cider_d_each
from seqjax.metrics.meteor import alignment, meteor
from seqjax.metrics.rouge import longest_common_subsequence, rouge_l
from tests.reference import captions as reference

HYPOTHESES = ['a man rides horses on the beach', 'two dogs running through a field', 'a cat sits on the mat', 'a red bus',
              'the boys are playing soccer in the park in the rain', 'a plate of food']
REFERENCES = [['a man riding a horse on a beach', 'a person rides a horse along the beach', 'someone on horseback by the sea'],
              ['two dogs run through a grassy field', 'a pair of dogs are running in the grass'],
              ['a cat sitting on a mat', 'the cat sat on the mat', 'a cat is on a rug', 'cat on mat'],
              ['a red double decker bus driving down the street', 'a bus on a city street'],
              ['children play soccer in the rain', 'kids playing football in a park', 'the boys play in the park in the rain'],
              ['a plate of food', 'a white plate topped with meat and vegetables']]
# Bleu, Cider and Rouge of pycocoevalcap 1.2, times 100.
COCO = dict(bleu1=89.44158860017774, bleu2=71.0978247136096, bleu3=53.997663996211145, bleu4=42.381215140717984,
            cider_d=234.0925008636677, rouge_l=73.1495674847469)
# meteor-1.5.jar -l en -m "exact stem" -w "1.0 1.0" -p "0.9 3.0 0.5 0.5", the best of the references of each but the last, for which
# it has a rule of its own: 1 for a text that equals its reference.
JAVA = [0.7120253164556962, 0.853462157809984, 0.8066666666666666, 0.3042328042328042, 0.960144927536232]


def words(text):
    return text.split()


def draw(seed, rows, longest):
    """Random texts of few words that have stems in common, and references."""
    rng = random.Random(seed)
    of = 'a the dog dogs running runs cat red'.split()
    text = lambda: [rng.choice(of) for _ in range(rng.randint(1, longest))]
    return [text() for _ in range(rows)], [[text() for _ in range(rng.randint(1, 4))] for _ in range(rows)]


def test_scores_equal_those_of_cocos_code():
    scores = caption_scores(HYPOTHESES, REFERENCES)
    assert {name: scores[name] for name in COCO} == pytest.approx(COCO, rel=1e-9)
    assert scores['exact_match'] == 1 / 6
    assert {name for name in scores if '/' not in name} == set(CAPTION_SCORES)


def test_meteor_equals_that_of_the_authors_program():
    found = [meteor(words(text), map(words, texts)) for text, texts in zip(HYPOTHESES, REFERENCES)]
    assert found[:-1] == pytest.approx(JAVA, rel=1e-12)
    assert found[-1] == 1 - 0.5 / 4 ** 3  # the equation of 2005
    assert caption_scores(HYPOTHESES, REFERENCES)['meteor'] == pytest.approx(100 * sum(found) / 6)


@pytest.mark.parametrize('hypothesis, text, found', [  # (matches, chunks) of meteor-1.5.jar -ssOut, columns 3 and 21
    ('on the mat sat the cat', 'the cat sat on the mat', (6, 3)),
    ('the cat was sat on the mat', 'the cat sat on the mat', (6, 2)),
    ('it is a guide to action which ensures that the military always obeys the commands of the party',
     'it is a guide to action that ensures that the military will forever heed party commands', (12, 4)),  # nltk's doctest: 6, greedily
    ('a dog running through grassy fields', 'dogs run through a grass field', (5, 3)),
    ('nothing', 'of the kind', (0, 0))])
def test_alignments_equal_those_of_the_authors_program(hypothesis, text, found):
    assert alignment(words(hypothesis), words(text)) == found


def test_published_examples_of_rouge_l():
    """Lin 2004, section 3: S2 is better than S3, with the words of S1 in their order; S4 'the gunman police killed' is like S3."""
    first = words('police killed the gunman')
    assert [rouge_l(words(text), [first], beta=1) for text in ('police kill the gunman', 'the gunman kill police',
                                                               'the gunman police killed')] == [0.75, 0.5, 0.5]
    assert longest_common_subsequence('abcdefg', 'acxeg') == 4


def test_published_example_of_clipped_precision():
    """Papineni et al. 2002, example 2: 'the' seven times is right twice."""
    scores = caption_scores(['the the the the the the the'], [['The cat is on the mat.', 'There is a cat on the mat.']])
    assert scores['bleu1'] == pytest.approx(100 * 2 / 7) and scores['bleu2'] == 0


@pytest.mark.parametrize('seed', range(3))
def test_scores_equal_brute_force(seed):
    import snowballstemmer

    hypotheses, references = draw(seed, rows=12, longest=7)
    assert cider_d(hypotheses, references) == pytest.approx(reference.cider_d(hypotheses, references), rel=1e-12)
    stem = snowballstemmer.stemmer('english').stemWord
    for text, texts in zip(hypotheses, references):
        assert rouge_l(text, texts) == pytest.approx(reference.rouge_l(text, texts), rel=1e-12)
        assert meteor(text, texts) == pytest.approx(max(reference.meteor(text, other, stem) for other in texts), rel=1e-12)


def test_one_of_several_references_is_enough():
    texts = [['something else altogether', caption] for caption in ('a three left of a seven', 'an eight above a one')]
    scores = caption_scores(['A three, left of a seven.', 'an eight above a one'], texts)
    assert [scores[f'bleu{n}'] for n in range(1, 5)] == pytest.approx([100] * 4) and scores['rouge_l'] == pytest.approx(100)
    assert scores['meteor'] > 99 and scores['exact_match'] == 0.5  # of texts as they are, capitals and points included
    assert scores['cider_d'] == pytest.approx(500)  # 10 times the mean over references, of which one has nothing in common


def test_cider_of_what_all_images_share_is_nothing():
    assert cider_d_each([['a', 'dog'], ['a', 'cat']], [[['a', 'dog']], [['a', 'cow']]])[1] == 0
    assert cider_d([['a', 'dog']], [[['a', 'dog']]]) == 0  # one image alone: all is shared


def test_texts_of_one_word_repeated_are_aligned_without_a_search_that_explodes():
    assert alignment(['a'] * 40, ['a'] * 40) == (40, 1)


def test_every_score_has_a_signature_that_says_what_was_left_out():
    scores = caption_scores(HYPOTHESES, REFERENCES)
    signatures = {name.removeprefix('signature/'): text for name, text in scores.items() if name.startswith('signature/')}
    assert set(signatures) == set(CAPTION_SCORES) - {'exact_match'}
    expected = dict(bleu4='nrefs:var case:lc tok:words smooth:none order:4', meteor='nrefs:2-4 match:exact+stem(snowball english) '
                    'synonyms:none paraphrases:none', rouge_l='beta:1.2', cider_d='cider:D sigma:6 stem:none')
    for name, parts in expected.items():
        assert all(part in signatures[name] for part in parts.rsplit(' ') if part not in ('match:exact+stem(snowball', 'english)'))
    assert 'match:exact+stem(snowball english)' in signatures['meteor']
    assert 'nrefs:1|' in caption_scores(['a'], [['b']])['signature/rouge_l']


def test_empty_texts_and_no_texts_at_all():
    scores = caption_scores(['', 'a dog'], [['a cat'], ['']])
    assert all(scores[name] == 0 for name in CAPTION_SCORES)
    assert all(math.isnan(caption_scores([], [])[name]) for name in CAPTION_SCORES)


def test_words_are_small_letters_without_punctuation():
    assert caption_words("It's a man's T-shirt, No. 7; ÄÖ!") == ["it's", 'a', "man's", 't', 'shirt', 'no', '7', 'äö']


@pytest.mark.parametrize('hypotheses, references, message', [
    (['a'], [], 'must be as many as references: 0'), (['a'], [[]], 'every caption needs at least one reference')])
def test_captions_without_references_are_named(hypotheses, references, message):
    with pytest.raises(FieldError, match=message):
        caption_scores(hypotheses, references)
