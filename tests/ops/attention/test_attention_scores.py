"""Scores, weights and contexts of attention against numpy loops, and their gradients against central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import attention as reference

B, T, S, D, E = 2, 3, 5, 4, 3
SHAPES = {  # of the arguments
    'additive_scores': [(B, T, D), (B, S, D), (D,)],
    'dot_scores': [(B, T, D), (B, S, D)],
    'scaled_dot_scores': [(B, T, D), (B, S, D)],
    'bilinear_scores': [(B, T, D), (B, S, E), (D, E)],
    'weigh': [(B, T, S), (B, S, D)],
}
MASKS = [(B, T, S), (B, 1, S), (T, S), (S,), (B, T, 1)]
WEIGHTS = {'soft': ops.soft_weights, 'hard': ops.hard_weights}


def draw(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def draw_mask(seed, shape=(B, T, S)):
    """Random places; in a full mask, the second query of every row may look nowhere and the last one everywhere."""
    mask = np.random.default_rng(seed).random(shape) < 0.5
    if shape == (B, T, S):
        mask[:, 1], mask[:, 2] = False, True
    return mask


def gradients(function, arrays, directions, *rest):
    """d sum(function(*arrays, *rest) * directions) / d array, for every array."""
    total = lambda *arrays: (function(*arrays, *rest) * directions).sum()
    return jax.device_get(jax.jit(jax.grad(total, argnums=tuple(range(len(arrays)))))(*arrays))


@pytest.mark.parametrize('name', SHAPES)
def test_values_and_gradients_equal_the_loop(name):
    function, expected, arrays = getattr(ops, name), getattr(reference, name), draw(0, *SHAPES[name])
    result = np.asarray(jax.jit(function)(*arrays))
    np.testing.assert_allclose(result, expected(*arrays), atol=2e-6)
    directions, = draw(1, result.shape)
    found = reference.gradients(expected, arrays, directions)
    for actual, gradient in zip(gradients(function, arrays, directions), found, strict=True):
        np.testing.assert_allclose(actual, gradient, atol=5e-6)


@pytest.mark.parametrize('shape', MASKS, ids=str)
@pytest.mark.parametrize('kind', WEIGHTS)
def test_weights_and_their_gradients_equal_the_loop_under_any_mask(kind, shape):
    scores, directions = draw(2, (B, T, S), (B, T, S))
    mask = draw_mask(3, shape)
    full = np.broadcast_to(mask, (B, T, S))
    weights = np.asarray(jax.jit(WEIGHTS[kind])(scores, mask))
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, getattr(reference, f'{kind}_weights')(scores, full), atol=1e-6 * (kind == 'soft'))
    # Straight through: hard weights move as the soft ones do.
    expected, = reference.gradients(lambda scores: reference.soft_weights(scores, full), [scores], directions)
    actual, = gradients(WEIGHTS[kind], [scores], directions, mask)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@pytest.mark.parametrize('kind', WEIGHTS)
def test_without_a_mask_a_query_may_look_everywhere(kind):
    scores, = draw(4, (B, T, S))
    np.testing.assert_array_equal(WEIGHTS[kind](scores), WEIGHTS[kind](scores, np.ones((B, T, S), bool)))


@pytest.mark.parametrize('kind', WEIGHTS)
def test_a_query_that_may_look_nowhere_has_exact_zeros_in_both_directions(kind):
    scores, directions = draw(5, (B, T, S), (B, T, S))
    mask = draw_mask(6)
    gradient, = gradients(WEIGHTS[kind], [scores], directions, mask)
    for result in (np.asarray(WEIGHTS[kind](scores, mask)), gradient):
        assert np.isfinite(result).all()
        assert not result[:, 1].any() and not result[~mask].any() and result[:, 2].any()


@pytest.mark.parametrize('behind', [1e30, -1e30, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize('kind', WEIGHTS)
def test_what_lies_behind_the_mask_changes_nothing(kind, behind):
    scores, directions = draw(7, (B, T, S), (B, T, S))
    mask = draw_mask(8)
    other = np.where(mask, scores, np.float32(behind))
    np.testing.assert_array_equal(WEIGHTS[kind](other, mask), WEIGHTS[kind](scores, mask))
    np.testing.assert_array_equal(gradients(WEIGHTS[kind], [other], directions, mask),
                                  gradients(WEIGHTS[kind], [scores], directions, mask))


@pytest.mark.parametrize('kind', WEIGHTS)
def test_huge_scores_are_no_trouble(kind):
    scores, directions = draw(9, (B, T, S), (B, T, S))
    mask = draw_mask(10)
    mask[0, 0], mask[1, 0] = [True, True, False, False, True], [False, True, True, False, True]
    for size in (1e30, 1e38):
        scores[0, 0], scores[0, 2] = [-size, size, size, size, -size], -size
        scores[1, 0], scores[1, 2] = [0, -size, -size, 0, -size], [size, -size, 0, size, 1]
        weights = np.asarray(WEIGHTS[kind](scores, mask))
        np.testing.assert_allclose(weights, getattr(reference, f'{kind}_weights')(scores, mask), atol=1e-6)
        assert np.isfinite(gradients(WEIGHTS[kind], [scores], directions, mask)).all()


def test_the_hard_choice_is_the_first_of_equals_and_sees_the_smallest_difference():
    scores = np.array([[[1, 3, 3, 0], [0, 0, 0, 0], [9, 2, 2, 9], [1e-9, 3e-9, 2e-9, 3e-9]]], np.float32)
    mask = np.array([[[1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]]], bool)
    np.testing.assert_array_equal(ops.hard_weights(scores, mask)[0], [[0, 1, 0, 0],
                                                                      [1, 0, 0, 0],
                                                                      [0, 1, 0, 0],
                                                                      [0, 1, 0, 0]])


@pytest.mark.parametrize('name', SHAPES)
def test_bfloat16_comes_close_and_only_values_stay_bfloat16(name):
    arrays = draw(11, *SHAPES[name])
    result = getattr(ops, name)(*(jnp.asarray(x, jnp.bfloat16) for x in arrays))
    assert result.dtype == (jnp.bfloat16 if name == 'weigh' else jnp.float32)
    np.testing.assert_allclose(np.float32(result), getattr(reference, name)(*arrays), atol=0.1)


def test_one_query_of_one_head_is_attended_as_by_attend():
    query, key, value = draw(12, (B, T, D), (B, S, D), (B, S, D))
    mask = draw_mask(13)
    expected = ops.attend(query[:, :, None], key[:, :, None], value[:, :, None], mask[:, None])[:, :, 0]
    weights = ops.soft_weights(ops.scaled_dot_scores(query, key), mask)
    np.testing.assert_allclose(ops.weigh(weights, value), expected, atol=1e-6)
