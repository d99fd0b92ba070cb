"""Attention against a numpy loop and torch, with masks that leave queries nothing to look at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import attention as reference

B, T, S, H, K = 2, 5, 7, 3, 4
attend = jax.jit(ops.attend)


def draw(seed=0, T=T, S=S):
    """Random query, key, value, and a mask with a query that may look nowhere in every row."""
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal((B, steps, H, K)).astype(np.float32) for steps in (T, S, S)]
    mask = rng.random((B, H, T, S)) < 0.5
    mask[:, :, 2] = False
    mask[:, :, 0, 1] = True
    return *arrays, mask


@jax.jit
def gradients(query, key, value, mask):
    weights = np.random.default_rng(9).standard_normal(query.shape).astype(np.float32)
    return jax.grad(lambda *qkv: (ops.attend(*qkv, mask) * weights).sum(), argnums=(0, 1, 2))(query, key, value)


def test_a_step_may_look_at_itself_and_the_past():
    np.testing.assert_array_equal(ops.Mask(causal=True).dense(4, 4), np.array([[1, 0, 0, 0],
                                                                               [1, 1, 0, 0],
                                                                               [1, 1, 1, 0],
                                                                               [1, 1, 1, 1]], bool))


@pytest.mark.parametrize('seed', range(3))
def test_attention_equals_the_loop_under_any_mask(seed):
    query, key, value, mask = draw(seed)
    np.testing.assert_allclose(attend(query, key, value, mask), reference.attend(query, key, value, mask), atol=1e-6)


def test_without_a_mask_every_query_sees_everything():
    query, key, value, mask = draw(3)
    expected = reference.attend(query, key, value, np.ones_like(mask))
    np.testing.assert_allclose(attend(query, key, value), expected, atol=1e-6)


@pytest.mark.parametrize('axes', [(0,), (1,), (0, 1), (0, 1, 2)], ids=str)
def test_a_mask_broadcasts(axes):
    query, key, value, mask = draw(4)
    small = mask[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(4))]
    expected = reference.attend(query, key, value, np.broadcast_to(small, mask.shape))
    np.testing.assert_allclose(attend(query, key, value, small), expected, atol=1e-6)


def test_a_query_that_may_look_nowhere_gets_exact_zeros_and_gives_zero_gradients():
    query, key, value, mask = draw(5)
    result = np.asarray(attend(query, key, value, mask))
    assert not np.any(result[:, 2]) and np.all(result[:, 0])
    d_query, d_key, d_value = jax.device_get(gradients(query, key, value, mask))
    assert all(np.isfinite(d).all() for d in (d_query, d_key, d_value))
    assert not np.any(d_query[:, 2]) and np.any(d_query[:, 0])
    for d in jax.device_get(gradients(query, key, value, np.zeros_like(mask))):
        assert not np.any(d)


def test_a_key_that_nobody_may_look_at_has_exactly_zero_gradient():
    query, key, value, mask = draw(6)
    mask[..., 4] = False
    _, d_key, d_value = jax.device_get(gradients(query, key, value, mask))
    assert not np.any(d_key[:, 4]) and not np.any(d_value[:, 4])
    assert np.any(d_key[:, 1]) and np.all(d_value[:, 1])


def test_what_lies_behind_the_mask_changes_nothing():
    query, key, value, mask = draw(7)
    mask[..., 4:] = False
    other = [np.concatenate([x[:, :4], 1e4 * np.flip(x[:, 4:])], axis=1) for x in (key, value)]
    np.testing.assert_array_equal(attend(query, *other, mask), attend(query, key, value, mask))


def test_no_step_looks_into_the_future():
    *qkv, _ = draw(8, T, T)
    causal = np.tril(np.ones((T, T), bool))
    jacobians = jax.jit(jax.jacrev(lambda *qkv: ops.attend(*qkv, causal)[0].sum((1, 2)), argnums=(0, 1, 2)))(*qkv)
    d_query, d_key, d_value = (np.abs(j[:, 0]).max((2, 3)) for j in jax.device_get(jacobians))  # [T, S]
    np.testing.assert_array_equal(d_value != 0, causal)
    assert not np.any(d_key[~causal]) and not np.any(d_query[~np.eye(T, dtype=bool)])
    np.testing.assert_array_equal(d_key[1:] != 0, causal[1:])
    assert np.all(np.diag(d_query)[1:])
    # The first step has one place to look at: its weight is 1 whatever the scores. That of the product and that of the sum
    # it is divided by cancel, but for the rounding of two sums in another order.
    assert d_key[0, 0] < 1e-6 and d_query[0, 0] < 1e-6


def test_scores_too_large_for_exp_are_no_trouble():
    query, key, value, mask = draw(10)
    for result in jax.device_get([attend(1e3 * query, key, value, mask), *gradients(1e3 * query, key, value, mask)]):
        assert np.isfinite(result).all() and np.any(result)


def test_bfloat16_comes_close_and_stays_bfloat16():
    query, key, value, mask = draw(11)
    result = attend(*(jnp.asarray(x, jnp.bfloat16) for x in (query, key, value)), mask)
    assert result.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(result), reference.attend(query, key, value, mask), atol=3e-2)


def test_values_and_gradients_equal_torch():
    torch = pytest.importorskip('torch')
    query, key, value, mask = draw(12)
    mask[:, :, 2, 0] = True
    theirs = [torch.tensor(x, requires_grad=True) for x in (query, key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in theirs), attn_mask=torch.tensor(mask)).transpose(1, 2)
    weights = np.random.default_rng(9).standard_normal(query.shape).astype(np.float32)
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(attend(query, key, value, mask), expected.detach(), atol=1e-6)
    for actual, x in zip(gradients(query, key, value, mask), theirs):
        np.testing.assert_allclose(actual, x.grad, atol=2e-6)
