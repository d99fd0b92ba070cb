"""Scores of captions as their papers define them, by brute force. Texts are lists of words."""

import itertools
import math

import numpy as np


def rouge_l(hypothesis, references, beta=1.2):
    """Lin 2004: a common subsequence is looked for among all subsequences of the hypothesis."""
    def common(reference):
        for size in range(min(len(hypothesis), len(reference)), 0, -1):
            theirs = set(itertools.combinations(reference, size))
            if any(part in theirs for part in itertools.combinations(hypothesis, size)):
                return size
        return 0

    P = max(common(reference) / len(hypothesis) for reference in references)
    R = max(common(reference) / len(reference) for reference in references)
    return (1 + beta ** 2) * P * R / (R + beta ** 2 * P) if P else 0.0


def meteor(hypothesis, reference, stem):
    """Banerjee and Lavie 2005 with the fewest chunks of all largest alignments, which are tried one by one."""
    choices = [[None, *(j for j, other in enumerate(reference) if stem(word) == stem(other))] for word in hypothesis]
    best = 0, 0
    for pairs in itertools.product(*choices):
        matched = [j for j in pairs if j is not None]
        if len(set(matched)) < len(matched):
            continue
        chunks = sum(j is not None and (i == 0 or pairs[i - 1] is None or pairs[i - 1] + 1 != j) for i, j in enumerate(pairs))
        best = max(best, (len(matched), -chunks))
    m, chunks = best[0], -best[1]
    if not m:
        return 0.0
    P, R = m / len(hypothesis), m / len(reference)
    return 10 * P * R / (R + 9 * P) * (1 - 0.5 * (chunks / m) ** 3)


def cider_d(hypotheses, references):
    """Vedantam et al. 2015, section 6: a vector over all n-grams of the corpus for every text."""
    total = 0.0
    for n in range(1, 5):
        cut = lambda words: [tuple(words[i:i + n]) for i in range(len(words) - n + 1)]
        every = sorted({ngram for words in [*hypotheses, *itertools.chain(*references)] for ngram in cut(words)})
        df = np.array([sum(any(ngram in cut(row) for row in rows) for rows in references) for ngram in every])
        idf = np.log(len(references) / np.maximum(df, 1))
        vector = lambda words: np.array([cut(words).count(ngram) for ngram in every]) * idf
        for words, rows in zip(hypotheses, references):
            for row in rows:
                c, s = vector(words), vector(row)
                norms = np.linalg.norm(c) * np.linalg.norm(s)
                if norms:
                    total += (10 / len(rows) * math.exp(-(len(words) - len(row)) ** 2 / (2 * 6 ** 2))
                              * np.minimum(c, s) @ s / norms / 4)
    return total / len(hypotheses)
