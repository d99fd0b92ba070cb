"""Cross-entropy against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqjax import ops

B, T, V = 3, 4, 7
cross_entropy = jax.jit(ops.cross_entropy)
with_gradient = jax.jit(jax.value_and_grad(lambda logits, targets: ops.cross_entropy(logits, targets).sum()))


def draw(scale=3.0):
    rng = np.random.default_rng(0)
    return (scale * rng.standard_normal((B, T, V))).astype(np.float32), rng.integers(0, V, (B, T))


def softmax(logits):
    weights = np.exp(np.float64(logits) - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_the_loss_is_minus_the_log_of_the_targets_probability():
    logits, targets = draw()
    expected = [[-np.log(softmax(logits)[b, t, targets[b, t]]) for t in range(T)] for b in range(B)]
    np.testing.assert_allclose(cross_entropy(logits, targets), expected, rtol=1e-5)


def test_the_gradient_is_the_probabilities_minus_the_target():
    logits, targets = draw()
    _, actual = with_gradient(logits, targets)
    np.testing.assert_allclose(actual, softmax(logits) - np.eye(V)[targets], atol=1e-6)


def test_equal_logits_cost_the_log_of_the_vocabulary():
    np.testing.assert_allclose(cross_entropy(np.full((B, T, V), -3, np.float32), draw()[1]), np.log(V), rtol=1e-6)


def test_huge_logits_give_finite_losses_and_gradients():
    logits, targets = draw(1e4)
    loss, gradient = with_gradient(logits, targets)
    expected = sum(logits[b, t].max() - logits[b, t, targets[b, t]] for b in range(B) for t in range(T))
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    assert np.isfinite(gradient).all() and np.any(gradient)


def test_bfloat16_logits_are_summed_in_float32():
    logits, targets = draw()
    low = jnp.asarray(logits, jnp.bfloat16)
    loss = cross_entropy(low, targets)
    assert loss.dtype == jnp.float32
    np.testing.assert_array_equal(loss, cross_entropy(low.astype(jnp.float32), targets))


@pytest.mark.parametrize('smoothing', [0.1, 1.0])
def test_a_smoothed_target_is_spread_over_all_tokens(smoothing):
    logits, targets = draw()
    log_probs = np.log(softmax(logits))
    loss, gradient = jax.jit(jax.value_and_grad(lambda logits: ops.cross_entropy(logits, targets, smoothing).sum()))(logits)
    chosen = sum(log_probs[b, t, targets[b, t]] for b in range(B) for t in range(T))
    np.testing.assert_allclose(loss, -(1 - smoothing) * chosen - smoothing * log_probs.sum() / V, rtol=1e-5)
    labels = np.asarray(optax.smooth_labels(np.eye(V, dtype=np.float32)[targets], smoothing))
    np.testing.assert_allclose(loss, -(labels * log_probs).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, softmax(logits) - labels, atol=1e-6)


def test_one_row_without_other_axes_works_too():
    logits, targets = draw()
    one = cross_entropy(logits[1, 2], targets[1, 2])
    assert one.shape == ()
    np.testing.assert_allclose(one, np.asarray(cross_entropy(logits, targets))[1, 2], rtol=1e-6)
