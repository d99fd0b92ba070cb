"""ROUGE-L: the longest common subsequence of a text and its references (Lin 2004)."""

from collections.abc import Sequence

BETA = 1.2  # recall counts more than precision; the value of COCO's evaluation of captions (Chen et al. 2015)
ROUGE_SIGNATURE = f'beta:{BETA}|refs:best P and best R'


def rouge_l(hypothesis: Sequence[str], references: Sequence[Sequence[str]], beta: float = BETA) -> float:
    """ROUGE-L of one text, 0..1:

        P = max_r LCS(h, r) / |h|,    R = max_r LCS(h, r) / |r|,    F = (1 + b^2) P R / (R + b^2 P)

    The maxima are over the references, each for itself, as COCO's evaluation has them.

    Args:
        hypothesis: words. references: words of each. beta: b.

    Example:
        >>> rouge_l('police kill the gunman'.split(), ['police killed the gunman'.split()], beta=1)
        0.75
    """
    common = [longest_common_subsequence(hypothesis, reference) for reference in references]
    precision = max(common) / max(1, len(hypothesis))
    recall = max(count / max(1, len(reference)) for count, reference in zip(common, references))
    return (1 + beta ** 2) * precision * recall / (recall + beta ** 2 * precision) if precision else 0.0


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words stand in both in the same order, with others between them."""
    row = [0] * (len(second) + 1)  # row[j]: of the words of `first` so far and the first j of `second`
    for word in first:
        before, row = row, [0]
        for j, other in enumerate(second):
            row.append(before[j] + 1 if word == other else max(before[j + 1], row[j]))
    return row[-1]
