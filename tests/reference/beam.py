"""Beam search over lists of tuples, for one row, as its rules say. Nothing is compiled, and prefixes are always whole."""

import collections
import math


def beam(log_probs, *, num_beams, max_length, end, length_penalty=0.0, num_beam_groups=1, diversity_penalty=0.0,
         no_repeat_ngram_size=0, min_length=0, prefix=(), coverage=lambda tokens: 0.0):
    """(hypotheses, steps): the n best as (tokens, score, log P), and for every step the list of its candidates.

    log_probs(tokens): what comes next, V numbers. coverage(tokens): what is added to the score of a finished one.
    A candidate is (tokens, log P, fate); of groups the candidates follow each other.
    """
    w = num_beams // num_beam_groups
    live, finished, steps = [[((), 0.0)] for _ in range(num_beam_groups)], [[] for _ in range(num_beam_groups)], []
    for t in range(max_length):
        chosen, steps = collections.Counter(), [*steps, []]
        for g in range(num_beam_groups):
            candidates = [((*tokens, token), log_prob + gained) for tokens, log_prob in live[g]
                          for token, gained in _possible(log_probs(tokens), tokens, end, no_repeat_ngram_size, min_length, prefix)]
            candidates.sort(key=lambda one: -(one[1] - diversity_penalty * chosen[one[0][-1]]))
            candidates = candidates[:2 * w]
            ends = [one for one in candidates[:w] if one[0][-1] == end]
            others = [one for one in candidates if one[0][-1] != end][:w]
            chosen.update(tokens[-1] for tokens, _ in ends + others)
            last = t == max_length - 1
            finished[g] += [(tokens, log_prob / ((5 + len(tokens)) / 6) ** length_penalty + coverage(tokens), log_prob)
                            for tokens, log_prob in ends + (others if last else [])]
            finished[g] = sorted(finished[g], key=lambda one: -one[1])[:w]
            live[g] = [] if last or len(finished[g]) == w else others
            fate = lambda one: 2 if one in ends or last and one in others else 1 if one in live[g] else 0
            steps[-1] += [(*one, fate(one)) for one in candidates]
        if not any(live):
            break
    best = {one[0]: one for group in finished for one in group}
    return sorted(best.values(), key=lambda one: -one[1]), steps


def _possible(gains, tokens, end, no_repeat_ngram_size, min_length, prefix):
    if len(tokens) < len(prefix):
        return [(prefix[len(tokens)], gains[prefix[len(tokens)]])]
    n = no_repeat_ngram_size
    seen = {tokens[i:i + n] for i in range(len(tokens) - n + 1)} if n else ()
    left = [(token, gain) for token, gain in enumerate(gains)
            if (*tokens, token)[-n:] not in seen and not (token == end and len(tokens) + 1 < min_length)]
    return [(token, gain) for token, gain in left if math.isfinite(gain)] or [(end, gains[end])]
