"""CIDEr-D: n-grams that are weighted by how rare they are among the references of other images (Vedantam et al. 2015)."""

from collections import Counter
from collections.abc import Sequence
import math

ORDERS, SIGMA = 4, 6.0
CIDER_SIGNATURE = f'cider:D|orders:1-{ORDERS}|sigma:{SIGMA:g}|df:these references|stem:none'


def cider_d(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> float:
    """CIDEr-D of a corpus, 0..10, the mean of `cider_d_each`."""
    return sum(cider_d_each(hypotheses, references)) / max(1, len(hypotheses))


def cider_d_each(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> list[float]:
    """CIDEr-D of every caption c with the references s_1 ... s_m of its image, the mean over n = 1 ... 4 of (section 6)

        10/m sum_j exp(-(|c| - |s_j|)^2 / (2 sigma^2)) min(g_n(c), g_n(s_j)) . g_n(s_j) / (|g_n(c)| |g_n(s_j)|)

    g_n holds for every n-gram its count times log(I / df), I images and df of them with the n-gram in some reference, at least 1.
    As in the authors' code, words are not stemmed. N-grams that all images share weigh nothing: of one image alone it is 0.

    Args:
        hypotheses: [I] of words. references: [I] of the words of each reference.
    """
    counted = [[_ngrams(reference) for reference in rows] for rows in references]
    seen = Counter(ngram for rows in counted for ngram in set().union(*rows))
    rarity = lambda ngram: math.log(len(references)) - math.log(max(1, seen[ngram]))
    weights = lambda counts: {ngram: count * rarity(ngram) for ngram, count in counts.items()}
    scores = []
    for words, rows, counts in zip(hypotheses, references, counted):
        own = weights(_ngrams(words))
        of_each = [math.exp(-(len(words) - len(row)) ** 2 / (2 * SIGMA ** 2)) * _similarity(own, weights(count))
                   for row, count in zip(rows, counts)]
        scores.append(10 * sum(of_each) / len(rows))
    return scores


def _ngrams(words):
    """{n-gram: count} of all orders."""
    return Counter(tuple(words[i:i + n]) for n in range(1, ORDERS + 1) for i in range(len(words) - n + 1))


def _similarity(own, other):
    """The mean over n of the clipped cosine of two {n-gram: weight}."""
    total = 0.0
    for n in range(1, ORDERS + 1):
        first, second = ({ngram: weight for ngram, weight in one.items() if len(ngram) == n} for one in (own, other))
        product = sum(min(weight, second[ngram]) * second[ngram] for ngram, weight in first.items() if ngram in second)
        total += product / (_norm(first) * _norm(second)) if product else 0.0
    return total / ORDERS


def _norm(weights):
    return math.sqrt(sum(weight ** 2 for weight in weights.values()))
