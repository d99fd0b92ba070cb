"""BLEU and chrF of a corpus as their papers define them, counted one n-gram at a time."""

import collections
import math


def bleu(hypotheses, references):
    """100 times brevity penalty times geometric mean of clipped precision (Papineni et al. 2002). Texts: lists of words."""
    logs = []
    for n in range(1, 5):
        matches, total, _ = _counts(hypotheses, references, n)
        logs.append(math.log(matches / total))
    length, wanted = sum(map(len, hypotheses)), sum(map(len, references))
    return 100 * min(1, math.exp(1 - wanted / length)) * math.exp(sum(logs) / 4)


def chrf(hypotheses, references):
    """100 times the F2 of the mean precision and the mean recall of character 1- to 6-grams, spaces aside (Popović 2015)."""
    hypotheses, references = ([text.replace(' ', '') for text in texts] for texts in (hypotheses, references))
    counts = [_counts(hypotheses, references, n) for n in range(1, 7)]
    precision = sum(matches / total for matches, total, _ in counts) / 6
    recall = sum(matches / wanted for matches, _, wanted in counts) / 6
    return 100 * 5 * precision * recall / (4 * precision + recall)


def _counts(hypotheses, references, n):
    """(n-grams that match, of the hypotheses, of the references), over the corpus; one matches as often as it is wanted."""
    matches = total = wanted = 0
    for hypothesis, reference in zip(hypotheses, references):
        ours, theirs = (collections.Counter(tuple(text[i:i + n]) for i in range(len(text) - n + 1))
                        for text in (hypothesis, reference))
        matches += sum(min(count, theirs[gram]) for gram, count in ours.items())
        total, wanted = total + sum(ours.values()), wanted + sum(theirs.values())
    return matches, total, wanted
