"""The loop that draws: greedy at temperature 0, true to its probabilities, and every row by its own key."""

import functools
import itertools

import jax
import numpy as np
import pytest

from seqjax.decode import MinLength, NoRepeat, Prefix, Problem, Sample, score
from seqjax.errors import FieldError
from tests.reference import tabular

B, T, END, V = 16, 6, tabular.END, tabular.V
SEEDS = np.random.default_rng(1).integers(0, tabular.M, B).astype(np.int32)
KEYS = jax.random.split(jax.random.key(0), B)


@functools.partial(jax.jit, static_argnums=0, static_argnames=('constraints', 'max_length'))
def draw(sampler, seeds, keys, limits=None, *, constraints=(), max_length=T, prefix=None):
    constraints += () if prefix is None else (Prefix(*prefix),)
    return sampler.solve(Problem(tabular.step, *tabular.begin(seeds), max_length, END, limits, constraints, keys))


def greedy(seed, max_length=T):
    tokens = ()
    while len(tokens) < max_length and END not in tokens:
        tokens += int(tabular.log_probs(seed, tokens).argmax()),
    return list(tokens)


def texts(found):
    return [tokens[:n].tolist() for tokens, n in zip(np.asarray(found.tokens)[:, 0], np.asarray(found.lengths)[:, 0])]


def test_temperature_0_takes_the_likeliest_token_up_to_the_end_or_a_limit():
    assert texts(draw(Sample(0), SEEDS, KEYS)) == [greedy(seed) for seed in SEEDS]
    limits = np.arange(B, dtype=np.int32) % (T + 1)
    found = draw(Sample(0), SEEDS, KEYS, limits)
    assert texts(found) == [greedy(seed, limit) for seed, limit in zip(SEEDS, limits)]
    np.testing.assert_array_equal(np.isneginf(found.scores[:, 0]), limits == 0)
    assert not any(tokens[0, n[0]:].any() for tokens, n in zip(found.tokens, found.lengths))


def test_pairs_of_tokens_are_as_frequent_as_their_probabilities():
    draws, seed = 20_000, int(SEEDS[0])
    found = draw(Sample(), np.full(draws, seed, np.int32), jax.random.split(jax.random.key(1), draws), max_length=2)
    counts = {}
    for text in map(tuple, texts(found)):
        counts[text] = counts.get(text, 0) + 1
    p = {(END,): np.exp(tabular.log_probs(seed, ())[END])}
    for a, b in itertools.product(set(range(V)) - {END}, range(V)):
        p[a, b] = np.exp(tabular.log_probs(seed, ())[a] + tabular.log_probs(seed, (a,))[b])
    assert set(counts) <= set(p) and sum(p.values()) == pytest.approx(1)
    chi_square = sum((counts.get(text, 0) - draws * share) ** 2 / (draws * share) for text, share in p.items())
    assert chi_square < len(p) - 1 + 5 * (2 * len(p)) ** 0.5


def test_what_a_row_becomes_depends_on_its_own_key_alone():
    sampler = Sample(1.5, top_k=4, min_p=0.01)
    together = texts(draw(sampler, SEEDS, KEYS))
    order = np.random.default_rng(0).permutation(B)
    assert texts(draw(sampler, SEEDS[order], KEYS[order])) == [together[b] for b in order]
    others = texts(draw(sampler, SEEDS, KEYS.at[3].set(KEYS[4])))
    assert others[:3] + others[4:] == together[:3] + together[4:] and others[3] != together[3]


def test_scores_are_the_log_probability_under_the_model_whatever_the_sampler_made_of_it():
    found = draw(Sample(1.5, top_k=4, min_p=0.01), SEEDS, KEYS)
    again, _ = jax.jit(lambda seeds, *targets: score(tabular.step, *tabular.begin(seeds), *targets))(
        SEEDS, found.tokens[:, 0], found.lengths[:, 0])
    np.testing.assert_allclose(found.log_probs[:, 0], again, rtol=1e-6)
    np.testing.assert_array_equal(found.scores, found.log_probs)
    for seed, text, log_prob in zip(SEEDS, texts(found), np.asarray(again)):
        by_hand = sum(tabular.log_probs(seed, tuple(text[:t]))[token] for t, token in enumerate(text))
        assert log_prob == pytest.approx(by_hand, rel=1e-5)


def test_what_is_drawn_keeps_to_the_constraints():
    prefixes = np.random.default_rng(3).integers(0, 3, (B, 2)).astype(np.int32)
    found = draw(Sample(2.0), SEEDS, KEYS, constraints=(NoRepeat(1), MinLength(4, END)), prefix=(prefixes, np.full(B, 2)))
    for text, prefix in zip(texts(found), prefixes):
        assert text[:2] == prefix.tolist() and len(text) >= 4 and len(set(text[2:])) == len(text[2:])
        assert not set(text[2:]) & set(text[:2])


def test_impossible_lengths_are_refused():
    with pytest.raises(FieldError, match='^max_length=0: must be at least 1$'):
        Sample().solve(Problem(tabular.step, *tabular.begin(SEEDS), 0, END, keys=KEYS))
