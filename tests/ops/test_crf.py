"""The conditional random field against a sum over all paths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import crf as reference

B, T, C = 6, 5, 3
LENGTHS = np.array([5, 0, 1, 3, 2, 4], np.int32)


def draw(seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: (scale * rng.standard_normal(shape)).astype(np.float32)
    return normal(B, T, C), ops.Transitions(normal(C), normal(C, C), normal(C)), rng.integers(0, C, (B, T)).astype(np.int32)


def expected_log_likelihood(scores, transitions, targets):
    return np.array([reference.path_scores(scores[b], transitions, n)[tuple(targets[b, :n])]
                     - reference.log_partition(scores[b], transitions, n) for b, n in enumerate(LENGTHS)])


@jax.jit
def everything(scores, transitions, targets, lengths=None):
    """All four functions, and the gradient of the likelihood."""
    weights = 1 + jnp.arange(len(scores), dtype=jnp.float32)
    likelihood = lambda scores, transitions: ops.crf_log_likelihood(scores, transitions, targets, lengths)
    gradient = jax.grad(lambda *inputs: (weights * likelihood(*inputs)).sum(), argnums=(0, 1))(scores, transitions)
    return dict(likelihood=likelihood(scores, transitions), partition=ops.crf_log_partition(scores, transitions, lengths),
                path=ops.crf_decode(scores, transitions, lengths),
                marginals=ops.crf_marginals(scores, transitions, lengths), gradient=gradient)


@pytest.mark.parametrize('seed', range(3))
def test_everything_equals_a_sum_over_all_paths(seed):
    scores, transitions, targets = draw(seed)
    found = jax.device_get(everything(scores, transitions, targets, LENGTHS))
    for b, n in enumerate(LENGTHS):
        expected = reference.log_partition(scores[b], transitions, n)
        np.testing.assert_allclose(found['partition'][b], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found['marginals'][b], reference.marginals(scores[b], transitions, n), atol=1e-5)
        assert tuple(found['path'][b, :n]) == reference.best_path(scores[b], transitions, n)
        assert not found['path'][b, n:].any()
    expected = expected_log_likelihood(scores, transitions, targets)
    np.testing.assert_allclose(found['likelihood'], expected, rtol=1e-5, atol=1e-5)


def test_the_gradient_equals_finite_differences_of_the_sum_over_all_paths():
    scores, transitions, targets = draw(3)
    found = jax.device_get(everything(scores, transitions, targets, LENGTHS)['gradient'])
    weights, flat, small = 1 + np.arange(B), [scores, *transitions], 1e-4
    for number, gradient in enumerate((found[0], *found[1])):
        for place in np.random.default_rng(number).choice(gradient.size, 8, replace=gradient.size < 8):
            values = []
            for sign in (1, -1):
                moved = [np.array(part, np.float64) for part in flat]
                moved[number].flat[place] += sign * small
                values.append(weights @ expected_log_likelihood(moved[0], moved[1:], targets))
            np.testing.assert_allclose(gradient.flat[place], (values[0] - values[1]) / (2 * small), rtol=1e-4, atol=1e-4)


def test_a_row_of_no_steps_has_the_empty_path_and_no_gradient():
    scores, transitions, targets = draw(4)
    found = jax.device_get(everything(scores, transitions, targets, np.zeros(B, np.int32)))
    assert all(not leaf.any() for leaf in jax.tree.leaves(found))


def test_what_lies_past_the_end_changes_nothing():
    scores, transitions, targets = draw(5)
    longer = np.pad(scores, ((0, 0), (0, 4), (0, 0)), constant_values=np.inf)
    longer[np.arange(T + 4) >= LENGTHS[:, None]] = np.inf
    more = np.pad(targets, ((0, 0), (0, 4)), constant_values=-7)
    short, long = (jax.device_get(everything(*args, LENGTHS)) for args in (
        (scores, transitions, targets), (longer, transitions, more)))
    np.testing.assert_array_equal(short['path'], long['path'][:, :T])
    np.testing.assert_allclose(short['likelihood'], long['likelihood'], rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), short['gradient'][1], long['gradient'][1])
    for d in (long['marginals'], long['gradient'][0]):
        assert not d[np.arange(T + 4) >= LENGTHS[:, None]].any()
    np.testing.assert_allclose(short['gradient'][0], long['gradient'][0][:, :T], atol=1e-6)


def test_without_lengths_every_row_is_whole():
    scores, transitions, targets = draw(6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), everything(scores, transitions, targets),
                 everything(scores, transitions, targets, np.full(B, T, np.int32)))


def test_with_transitions_of_zero_every_step_is_a_softmax_of_its_own():
    scores, transitions, targets = draw(7)
    found = everything(scores, jax.tree.map(np.zeros_like, transitions), targets, LENGTHS)
    each = np.where(np.arange(T) < LENGTHS[:, None], -ops.cross_entropy(scores, targets), 0)
    np.testing.assert_allclose(found['likelihood'], each.sum(axis=1), rtol=1e-5, atol=1e-6)


def test_a_forbidden_transition_is_never_decoded_and_scores_may_be_large():
    scores, transitions, targets = draw(8, scale=50.0)
    transitions = transitions._replace(between=np.where(np.eye(C, dtype=bool), np.float32(-1e4), transitions.between))
    found = jax.device_get(everything(scores, transitions, targets, LENGTHS))
    path = found['path']
    same = (path[:, 1:] == path[:, :-1]) & (np.arange(1, T) < LENGTHS[:, None])
    assert not same.any()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


def test_bfloat16_scores_are_judged_in_float32():
    scores, transitions, targets = draw(9)
    low = jnp.asarray(scores, jnp.bfloat16)
    likelihood = jax.jit(ops.crf_log_likelihood)(low, transitions, targets, LENGTHS)
    exact = everything(low.astype(jnp.float32), transitions, targets, LENGTHS)['likelihood']
    assert likelihood.dtype == jnp.float32
    np.testing.assert_allclose(likelihood, exact, rtol=1e-6)
