"""Numbers of 8 bits are as near as 8 bits can be, and products with them are those that numpy finds in whole numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.errors import FieldError

D, M = 24, 7


def drawn(*shape, seed=0):
    """Columns of very different sizes, as kernels have."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp(rng.normal(scale=2, size=shape[-1]))).astype(np.float32)


def test_int8_is_the_nearest_of_255_numbers():
    W = drawn(D, M)
    quantised = ops.quantise(W, 0)
    scale = np.abs(W).max(axis=0) / 127
    np.testing.assert_allclose(quantised.scale[:, 0], scale, rtol=1e-6)
    assert quantised.values.dtype == jnp.int8 and np.abs(np.asarray(quantised.values, int)).max() == 127
    assert (np.abs(quantised.astype(jnp.float32) - W) <= 0.5001 * scale).all()


def test_float8_keeps_four_digits_of_every_number():
    W = drawn(D, M)
    quantised = ops.quantise(W, 0, 'float8')
    assert quantised.values.dtype == jnp.float8_e4m3fn
    smallest = np.asarray(quantised.scale)[:, 0] * 2.0 ** -6  # below it the numbers lie evenly
    error = np.abs(quantised.astype(jnp.float32) - W)
    assert (error <= np.maximum(np.abs(W), smallest) * 2.0 ** -4 * 1.0001).all()


@pytest.mark.parametrize('summed', [0, (0, 1), -1, (-2,)])
def test_scales_are_of_what_is_summed_over(summed):
    W = drawn(4, 3, 5)
    quantised = ops.quantise(W, summed)
    scale = np.abs(W).max(axis=summed, keepdims=True) / 127
    assert quantised.shape == W.shape and quantised.scale.size == scale.size
    assert (np.abs(quantised.astype(jnp.float32) - W) <= 0.5001 * scale).all()


def test_layers_may_be_stacked_before():
    """A layer of what was quantised together is that layer quantised, as in a scan."""
    W = drawn(2, 4, 3, 5)
    of_all = jax.tree.map(lambda x: x[1], ops.quantise(W, (-3, -2)))
    np.testing.assert_array_equal(of_all.astype(jnp.float32), ops.quantise(W[1], (0, 1)).astype(jnp.float32))
    assert of_all.shape == (4, 3, 5)


def test_zeros_stay_zeros():
    quantised = ops.quantise(np.zeros((D, M), np.float32), 0)
    assert not np.asarray(quantised.astype(jnp.float32)).any() and np.isfinite(quantised.scale).all()


@pytest.mark.parametrize('weights', ops.EIGHT_BITS)
@pytest.mark.parametrize('N, D, M', [(5, 24, 7), (1, 700, 1000), (100, 512, 600)])  # few rows, and many
def test_a_product_is_that_of_the_rounded_kernel(weights, N, D, M):
    x, W = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32), drawn(D, M)
    kernel, table = ops.quantise(W, 0, weights), ops.quantise(W.reshape(D // 2, 2, M), (0, 1), weights)
    rounded = np.asarray(kernel.astype(jnp.float32), np.float64)
    size = np.abs(x) @ np.abs(rounded)  # of what is added up
    for found in (ops.multiply_quantised(x, kernel), ops.multiply_quantised(x, table)):
        np.testing.assert_allclose(found / size, x.astype(np.float64) @ rounded / size, atol=1e-6)


@pytest.mark.parametrize('N', [1, 5])
def test_with_activations_the_product_is_one_of_whole_numbers(N):
    x, W = drawn(N, D, seed=1), drawn(D, M)
    kernel = ops.quantise(W, 0, activations=True)
    of_rows = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    whole = np.round(x / of_rows).astype(np.int64) @ np.asarray(kernel.values, np.int64).T
    np.testing.assert_allclose(ops.multiply_quantised(x, kernel), whole * of_rows * np.asarray(kernel.scale)[:, 0], rtol=1e-6)


@pytest.mark.parametrize('weights, most', [('int8', 0.02), ('float8', 0.05)])
def test_with_activations_it_is_near_the_product_before(weights, most):
    x, W = np.random.default_rng(1).normal(size=(64, 256)).astype(np.float32), drawn(256, 32)
    y = ops.multiply_quantised(x, ops.quantise(W, 0, weights, activations=True))
    error = np.linalg.norm(y - x @ W, axis=0) / np.linalg.norm(x @ W, axis=0)
    assert 0 < error.max() < most


def test_it_is_in_the_type_of_x():
    x, kernel = jnp.asarray(drawn(3, D), jnp.bfloat16), ops.quantise(drawn(D, M), 0)
    assert ops.multiply_quantised(x, kernel).dtype == jnp.bfloat16


def test_other_numbers_are_refused():
    with pytest.raises(FieldError, match="weights='int4'.*int8"):
        ops.quantise(drawn(D, M), 0, 'int4')
