"""Activations of the feed-forward network against their definitions."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from seqjax.nn.feed_forward import activation_function

X = np.linspace(-9, 9, 181, dtype=np.float32)
SHARE = np.array([math.erfc(-x / 2 ** 0.5) / 2 for x in X.tolist()])  # of a normal distribution that is below x


def test_gelu_is_x_times_the_share_of_a_normal_distribution_below_x():
    np.testing.assert_allclose(jax.jit(activation_function('gelu'))(X), X * SHARE, rtol=1e-6, atol=1e-6)


def test_the_slope_of_gelu_is_the_share_and_x_times_the_density():
    density = np.exp(-X.astype(np.float64) ** 2 / 2) / (2 * np.pi) ** 0.5
    slope = jax.jit(jax.vmap(jax.grad(activation_function('gelu'))))(X)
    np.testing.assert_allclose(slope, SHARE + X * density, atol=1e-6)


def test_gelu_of_bfloat16_is_rounded_once():
    low = jnp.asarray(X, jnp.bfloat16)
    actual = activation_function('gelu')(low)
    assert actual.dtype == jnp.bfloat16
    np.testing.assert_array_equal(actual, activation_function('gelu')(low.astype(jnp.float32)).astype(jnp.bfloat16))
