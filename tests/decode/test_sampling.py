"""Filters and draws against a numpy version that sorts a list."""

import jax
import numpy as np
import pytest

from seqjax.decode import Sample, keep_min_p, keep_top_k, keep_top_p
from seqjax.errors import FieldError

V = 9
LOGITS = (2 * np.random.default_rng(0).standard_normal(V)).astype(np.float32)
DRAWS = 20_000
top_k, top_p, min_p = jax.jit(keep_top_k, static_argnums=1), jax.jit(keep_top_p), jax.jit(keep_min_p)


def softmax(logits):
    weights = np.exp(np.float64(logits) - np.max(logits))
    return weights / weights.sum()


def probabilities(logits, sampler):
    """What each token's share must be, from the definition."""
    p = softmax(np.float64(logits) / sampler.temperature)
    likeliest = sorted(range(len(p)), key=lambda token: -p[token])
    if sampler.top_k:
        likeliest = likeliest[:sampler.top_k]
    kept, total = [], 0
    for token in likeliest:
        if total >= sampler.top_p:
            break
        kept.append(token)
        total += p[token] / p[likeliest].sum()
    kept = [token for token in kept if p[token] >= sampler.min_p * p.max()]
    result = np.zeros(len(p))
    result[kept] = p[kept] / p[kept].sum()
    return result


@pytest.mark.parametrize('k', range(1, V + 1))
def test_top_k_keeps_exactly_the_k_largest_unchanged(k):
    kept = np.asarray(top_k(LOGITS, k))
    largest = sorted(range(V), key=lambda token: -LOGITS[token])[:k]
    assert set(np.flatnonzero(kept > -np.inf)) == set(largest)
    np.testing.assert_array_equal(kept[largest], LOGITS[largest])


def test_top_k_keeps_the_first_of_equals():
    np.testing.assert_array_equal(top_k(np.float32([1, 3, 3, 0, 3]), 2), np.float32([-np.inf, 3, 3, -np.inf, -np.inf]))


@pytest.mark.parametrize('p', [1e-6, 0.2, 0.5, 0.8, 0.95, 0.999])
def test_top_p_keeps_the_fewest_likeliest_tokens_that_reach_p(p):
    kept = np.asarray(top_p(LOGITS, np.float32(p)))
    expected = probabilities(LOGITS, Sample(top_p=p)) > 0
    np.testing.assert_array_equal(kept > -np.inf, expected)
    np.testing.assert_array_equal(kept[expected], LOGITS[expected])
    share = softmax(LOGITS)[expected]
    assert share.sum() >= p > share.sum() - share.min()


@pytest.mark.parametrize('p, kept', [(0.4, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.76, 3), (0.9, 4)])
def test_top_p_counts_are_exact_where_probabilities_are_powers_of_two(p, kept):
    logits = np.log(np.float32([0.125, 0.5, 0.0625, 0.25, 0.0625]))
    assert np.isfinite(top_p(logits, np.float32(p))).sum() == kept


@pytest.mark.parametrize('p', [1e-9, 0.05, 0.2, 0.5, 1.0])
def test_min_p_keeps_the_tokens_that_are_at_least_p_times_as_likely_as_the_likeliest(p):
    kept = np.asarray(min_p(LOGITS, np.float32(p)))
    share = softmax(LOGITS)
    expected = share >= p * share.max()
    assert expected.sum() == {1e-9: V, 1.0: 1}.get(p, expected.sum())
    np.testing.assert_array_equal(kept > -np.inf, expected)
    np.testing.assert_array_equal(kept[expected], LOGITS[expected])


def test_min_p_is_of_the_likeliest_at_this_temperature():
    logits = np.log(np.float32([0.64, 0.04, 0.32]))  # 0.04 of 0.64 is 1/16, and 1/4 at temperature 2
    draw = lambda sampler: set(np.asarray(jax.jit(jax.vmap(sampler, in_axes=(0, None)))(
        jax.random.split(jax.random.key(0), 500), logits)).tolist())
    assert draw(Sample(1.0, min_p=0.2)) == {0, 2}
    assert draw(Sample(2.0, min_p=0.2)) == {0, 1, 2}


@pytest.mark.parametrize('sampler', [Sample(0, top_k=3, top_p=0.1), Sample(0.7, top_k=1), Sample(top_p=1e-6),
                                     Sample(min_p=1.0)], ids=str)
def test_temperature_0_one_token_or_a_tiny_nucleus_is_argmax_whatever_the_key(sampler):
    rows = np.random.default_rng(1).standard_normal((50, V)).astype(np.float32)
    tokens = jax.jit(jax.vmap(sampler))(jax.random.split(jax.random.key(0), 50), rows)
    assert tokens.dtype == np.int32
    np.testing.assert_array_equal(tokens, rows.argmax(-1))


@pytest.mark.parametrize('sampler', [Sample(), Sample(0.5, top_k=V + 5), Sample(3.0, top_k=4), Sample(top_p=0.9),
                                     Sample(2.0, top_k=6, top_p=0.8), Sample(1.5, min_p=0.1),
                                     Sample(2.0, top_k=7, top_p=0.95, min_p=0.2)], ids=str)
def test_draws_are_as_frequent_as_their_probabilities(sampler):
    keys = jax.random.split(jax.random.key(1), DRAWS)
    tokens = jax.jit(jax.vmap(sampler, in_axes=(0, None)))(keys, LOGITS)
    counts, expected = np.bincount(tokens, minlength=V), DRAWS * probabilities(LOGITS, sampler)
    possible = expected > 0
    assert not counts[~possible].any()
    freedom = possible.sum() - 1
    chi_square = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi_square < freedom + 5 * (2 * freedom) ** 0.5


def test_the_nucleus_is_taken_of_what_top_k_left():
    logits = np.log(np.float32([0.3, 0.25, 0.25, 0.2]))
    sampler = Sample(top_k=2, top_p=0.54)  # 0.3 of 0.55 is enough after top-k, and not before it
    tokens = jax.jit(jax.vmap(sampler, in_axes=(0, None)))(jax.random.split(jax.random.key(2), 100), logits)
    assert not np.any(tokens)


@pytest.mark.parametrize('fields, sentence', [
    (dict(temperature=-0.5), 'temperature=-0.5: must be at least 0 (0 is greedy)'),
    (dict(temperature=float('nan')), 'temperature=nan: must be at least 0 (0 is greedy)'),
    (dict(temperature=float('inf')), 'temperature=inf: must be at least 0 (0 is greedy)'),
    (dict(top_k=-1), 'top_k=-1: must be at least 0 (0 keeps all tokens)'),
    (dict(top_p=0.0), 'top_p=0.0: must be more than 0 and at most 1 (1 keeps all tokens)'),
    (dict(top_p=1.5), 'top_p=1.5: must be more than 0 and at most 1 (1 keeps all tokens)'),
    (dict(min_p=-0.1), 'min_p=-0.1: must be at least 0 and at most 1 (0 keeps all tokens)'),
    (dict(min_p=float('nan')), 'min_p=nan: must be at least 0 and at most 1 (0 keeps all tokens)'),
    (dict(top_p=float('nan')), 'top_p=nan: must be more than 0 and at most 1 (1 keeps all tokens)'),
], ids=str)
def test_impossible_settings_are_refused_by_name_and_value(fields, sentence):
    with pytest.raises(FieldError) as error:
        Sample(**fields)
    assert str(error.value) == sentence
