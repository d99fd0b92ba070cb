"""Beams against a beam over lists, a search of everything, greedy search and the score of what they return."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.decode import Beam, Exact, MinLength, NoRepeat, Prefix, Problem, score
from seqjax.errors import FieldError
from tests.reference import tabular
from tests.reference.beam import beam as reference_beam

B, T, END, V, S = 32, 6, tabular.END, tabular.V, tabular.S
SEEDS = np.random.default_rng(1).integers(0, tabular.M, B).astype(np.int32)
PREFIXES = np.random.default_rng(2).integers(0, V, (B, 3)).astype(np.int32)  # some with an end, some with repetitions
PREFIX_LENGTHS = np.arange(B, dtype=np.int32) % 4
CASES = {
    'plain': dict(num_beams=3),
    'one': dict(num_beams=1),
    'wide': dict(num_beams=7, length_penalty=1.0),
    'coverage': dict(num_beams=3, length_penalty=0.6, coverage_penalty=0.7),
    'groups': dict(num_beams=6, num_beam_groups=3, diversity_penalty=0.9),
    'groups_of_one': dict(num_beams=3, num_beam_groups=3, diversity_penalty=0.4, length_penalty=2.0),
    'no_repeat_ngram_size': dict(num_beams=3, no_repeat_ngram_size=1, min_length=4),
    'prefix': dict(num_beams=3, prefix=True, length_penalty=0.5),
    'everything': dict(num_beams=4, num_beam_groups=2, diversity_penalty=0.7, length_penalty=0.8, coverage_penalty=0.5, no_repeat_ngram_size=2,
                       min_length=3, prefix=True),
}
all_cases = pytest.mark.parametrize('case', CASES)


@functools.partial(jax.jit, static_argnums=0)
def search(case, seeds, prefixes, prefix_lengths, limits=None):
    options = dict(CASES[case])
    constraints = ()
    if 'no_repeat_ngram_size' in options:
        constraints += NoRepeat(options.pop('no_repeat_ngram_size')), MinLength(options.pop('min_length'), END)
    if options.pop('prefix', False):
        constraints += Prefix(prefixes, prefix_lengths),
    mask = jnp.arange(S) < tabular.source_length(seeds)[:, None]
    problem = Problem(tabular.step, *tabular.begin(seeds), max_length=T, end=END, limits=limits, constraints=constraints,
                      attention=tabular.attention, source_mask=mask)
    return Beam(**options).traced(problem)


def rows(case, chosen=slice(None)):
    return jax.device_get(search(case, SEEDS[chosen], PREFIXES[chosen], PREFIX_LENGTHS[chosen]))


def expected(case, b, max_length=T):
    """What the reference finds for row b."""
    options = dict(CASES[case])
    if options.pop('prefix', False):
        options['prefix'] = tuple(PREFIXES[b, :PREFIX_LENGTHS[b]].tolist())
    penalty, seed = options.pop('coverage_penalty', 0.0), int(SEEDS[b])

    def coverage(tokens):
        looked_at = sum(tabular.weights(seed, tokens[:t]) for t in range(len(tokens)))
        return penalty * np.log(np.minimum(looked_at, 1)).sum()

    return reference_beam(lambda tokens: tabular.log_probs(seed, tokens), max_length=max_length, end=END, coverage=coverage,
                          **options)


def texts(found, b):
    """The hypotheses of row b as tuples."""
    return [tuple(tokens[:n].tolist()) for tokens, n in zip(found.tokens[b], found.lengths[b]) if n]


def assert_row(found, b, best):
    assert texts(found, b) == [tokens for tokens, _, _ in best]
    n = len(best)
    np.testing.assert_allclose(found.scores[b, :n], [value for _, value, _ in best], rtol=1e-5)
    np.testing.assert_allclose(found.log_probs[b, :n], [value for _, _, value in best], rtol=1e-5)
    assert np.all(found.scores[b, n:] == -np.inf) and np.all(found.log_probs[b, n:] == -np.inf)
    assert not any(tokens[n:].any() for tokens, n in zip(found.tokens[b], found.lengths[b]))


@all_cases
def test_every_row_is_what_a_beam_over_lists_finds(case):
    found, _ = rows(case)
    assert found.tokens.dtype == found.lengths.dtype == np.int32
    for b in range(B):
        assert_row(found, b, expected(case, b)[0])
    assert len(set(found.lengths.ravel().tolist())) > 1  # some end early


@all_cases
def test_the_trace_holds_all_candidates_with_their_parents_and_what_became_of_them(case):
    _, trace = rows(case)
    w = CASES[case]['num_beams'] // CASES[case].get('num_beam_groups', 1)
    for b in range(B):
        _, steps = expected(case, b)
        slots = {g * w: () for g in range(CASES[case].get('num_beam_groups', 1))}
        for t in range(T):
            candidates, after = [], {}
            for token, parent, value, fate, slot in zip(*(leaf[b, t].tolist() for leaf in trace)):
                if value > -np.inf:
                    text = (*slots[parent], token)
                    candidates.append((text, pytest.approx(value, rel=1e-5), fate))
                    after.update({slot: text} if fate == 1 else {})
                assert (slot >= 0) == (fate == 1) and (value > -np.inf or fate == 0)
            assert candidates == (steps[t] if t < len(steps) else [])
            slots = after


@pytest.mark.parametrize('case', ['wide', 'everything'])
def test_a_row_alone_is_found_as_in_a_batch(case):
    together, trace = rows(case)
    for b in (0, 5, B - 1):
        alone, alone_trace = rows(case, slice(b, b + 1))
        jax.tree.map(lambda one, all: np.testing.assert_array_equal(one[0], all[b]), (alone, alone_trace), (together, trace))


def test_scores_are_sorted_hypotheses_distinct_and_log_probs_those_of_the_tokens():
    for case in ('wide', 'groups', 'everything'):
        found, _ = rows(case)
        k = CASES[case]['num_beams']
        assert np.all(found.scores[:, :-1] >= found.scores[:, 1:])
        assert all(len(set(texts(found, b))) == len(texts(found, b)) >= 1 for b in range(B))
        again, by_token = jax.jit(lambda seeds, *targets: score(tabular.step, *tabular.begin(seeds), *targets))(
            SEEDS.repeat(k), found.tokens.reshape(-1, T), found.lengths.reshape(-1))
        real = found.lengths.reshape(-1) > 0
        np.testing.assert_allclose(found.log_probs.reshape(-1)[real], again[real], rtol=1e-5)
        np.testing.assert_allclose(np.sum(by_token, axis=1), again, rtol=1e-5)
        assert real.sum() > len(real) / 2


def test_a_beam_as_wide_as_the_tree_finds_what_exact_search_finds():
    for penalty in (0.0, 1.0, 4.0):
        wide = jax.jit(lambda seeds: Beam(V ** 3, penalty).solve(Problem(tabular.step, *tabular.begin(seeds), 3, END)))
        found = jax.device_get(wide(SEEDS))
        assert len(texts(found, 0)) == 1 + 4 + 16 + 64  # all there are: ended after 1, 2, 3 tokens, or not
        for b in range(0, B, 4):
            best = Exact(penalty, n_best=5).solve(Problem(tabular.step, *tabular.begin(SEEDS[b:b + 1]), 3, END))
            assert texts(found, b)[:5] == texts(best, 0)
            np.testing.assert_allclose(found.scores[b, :5], best.scores[0], rtol=1e-5)
            np.testing.assert_allclose(found.log_probs[b, :5], best.log_probs[0], rtol=1e-5)


def test_a_row_may_have_a_limit_of_its_own_and_one_of_padding_changes_nothing():
    limits = (np.arange(B, dtype=np.int32) * 5) % (T + 1)
    found, trace = jax.device_get(search('wide', SEEDS, PREFIXES, PREFIX_LENGTHS, limits))
    for b in range(B):
        assert_row(found, b, expected('wide', b, limits[b])[0] if limits[b] else [])
        assert not trace.fate[b, limits[b]:].any()


def broken_or_ended(state, tokens):
    """Rows whose number is odd know no probabilities; the others end at once, all but surely."""
    logits = jnp.where(jnp.arange(V) == END, 9.0, 0.0) + jnp.zeros((len(tokens), V))
    return state, jnp.where(state[:, None] % 2 == 1, jnp.nan, logits)


def test_the_loop_ends_with_its_last_row_and_not_a_number_stays_in_its_row():
    calls = []

    def step(state, tokens):
        jax.debug.callback(lambda: calls.append(None))
        return broken_or_ended(state, tokens)

    found, trace = jax.jit(lambda state, limits: Beam(1).traced(Problem(step, state, state, 50, END, limits)))(
        np.arange(4, dtype=np.int32), np.int32([50, 50, 50, 0]))
    jax.effects_barrier()
    assert np.isneginf(trace.scores[1::2]).all() and not np.isnan(trace.scores).any()
    assert len(calls) == 1
    assert found.lengths[:, 0].tolist() == [1, 0, 1, 0] and found.tokens[:, 0, 0].tolist() == [END, 0, END, 0]
    assert np.isneginf(found.scores[1::2]).all() and np.isfinite(found.scores[::2]).all()


@pytest.mark.parametrize('options, sentence', [
    (dict(num_beams=0), 'num_beams=0: must be at least 1'),
    (dict(num_beams=4, num_beam_groups=3), 'num_beam_groups=3: must divide num_beams=4'),
    (dict(num_beams=4, num_beam_groups=2), 'diversity_penalty=0.0: must be more than 0, or the 2 groups are 2 times the same'),
    (dict(num_beams=4, diversity_penalty=0.5), 'diversity_penalty=0.5: is between groups, and there is one; write 0, or more groups'),
    (dict(num_beams=2, max_length=0), 'max_length=0: must be at least 1'),
    (dict(num_beams=2, coverage_penalty=0.5), 'coverage_penalty=0.5: needs attention and source_mask'),
    (dict(num_beams=2, coverage_penalty=0.5, attention=lambda state: None, source_mask=np.ones((1, S), bool)),
     'coverage_penalty=0.5: the model has no attention; write 0'),
], ids=lambda value: value if isinstance(value, str) else '')
def test_impossible_beams_are_refused(options, sentence):
    options = dict(options)
    with pytest.raises(FieldError) as error:
        fields = {name: options.pop(name) for name in ('max_length', 'attention', 'source_mask') if name in options}
        Beam(**options).solve(Problem(tabular.step, *tabular.begin(SEEDS[:1]), **{'max_length': T, 'end': END, **fields}))
    assert str(error.value) == sentence
