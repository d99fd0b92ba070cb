"""METEOR: words of a text that are matched with those of a reference, and in how many pieces (Banerjee and Lavie 2005)."""

from collections import Counter
from collections.abc import Sequence
import functools

ALPHA, BETA, GAMMA = 0.9, 3, 0.5
METEOR_SIGNATURE = (f'match:exact+stem(snowball english)|synonyms:none|paraphrases:none|alpha:{ALPHA}|beta:{BETA}|gamma:{GAMMA}'
                    '|refs:best|mean of captions')
MOST_STATES = 500  # of the search for an alignment; fewer are reached unless words are repeated very often


def meteor(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """METEOR of one text, 0..1, the largest one over the references:

        P = m / |h|,  R = m / |r|,  F = P R / (0.9 P + 0.1 R),  METEOR = F (1 - 0.5 (chunks / m)^3)

    m words of the hypothesis h are matched, each with another word of the reference r that has the same stem, as many as can be; of
    such alignments the one with the fewest chunks counts, which are pieces that stand in both texts without a gap.

    Here we differ from METEOR 1.5, which also matches synonyms of WordNet and paraphrases, weighs function words and kinds of
    matches, and has other constants: numbers of the two are not to be compared.

    Args:
        hypothesis: words. references: words of each.

    Example:
        >>> meteor('on the mat sat the cat'.split(), ['the cat sat on the mat'.split()])
        0.9375
    """
    return max(_one(hypothesis, reference) for reference in references)


def _one(hypothesis, reference):
    matches, chunks = alignment(hypothesis, reference)
    if not matches:
        return 0.0
    precision, recall = matches / len(hypothesis), matches / len(reference)
    mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return mean * (1 - GAMMA * (chunks / matches) ** BETA)


def alignment(hypothesis: Sequence[str], reference: Sequence[str]) -> tuple[int, int]:
    """(how many words are matched, in how few chunks they can be).

    Words with one stem may be matched with one another, so that of a stem with a and b words min(a, b) are, whichever those are. The
    search goes through the hypothesis word by word, and keeps for every set of used words of the reference the fewest chunks.
    """
    ours, theirs = [_stem(word) for word in hypothesis], [_stem(word) for word in reference]
    places = {stem: [j for j, other in enumerate(theirs) if other == stem] for stem in set(ours)}
    bits = {stem: sum(1 << j for j in found) for stem, found in places.items()}
    spare = Counter(ours) - Counter(theirs)  # words of the hypothesis that stay alone
    states = {(0, None): 0}  # (used words of the reference as bits, the one that the word before was matched with): chunks
    seen = Counter()
    for stem in ours:
        found = {}
        for (used, last), chunks in states.items():
            nexts = [((used | 1 << j, j), chunks + (last is None or j != last + 1)) for j in places[stem] if not used >> j & 1]
            if seen[stem] - (bits[stem] & used).bit_count() < spare[stem]:
                nexts.append(((used, None), chunks))
            for state, count in nexts:
                found[state] = min(count, found.get(state, count))
        states = dict(sorted(found.items(), key=lambda item: item[1])[:MOST_STATES])
        seen[stem] += 1
    (used, _), chunks = min(states.items(), key=lambda item: item[1])
    return used.bit_count(), chunks


@functools.lru_cache(maxsize=None)
def _stem(word):
    return _stemmer().stemWord(word)


@functools.lru_cache(maxsize=None)
def _stemmer():
    import snowballstemmer  # here, because it loads all of its languages

    return snowballstemmer.stemmer('english')
