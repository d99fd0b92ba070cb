"""The Transformer block against numpy, and its cache against doing without one."""

import functools
import math

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from tests.reference import attention as reference
from tests.reference.parameters import random_parameters

B, T, D, H = 2, 6, 8, 2
K = D // H


def draw(layer, scale=0.5):
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype(np.float32)
    return random_parameters(layer, x, scale=scale), x


def project(params, x, contract=1):
    return np.tensordot(x, np.float64(params['kernel']), contract) + params.get('bias', 0)


def attention(params, x):
    query, key, value = np.moveaxis(project(params['qkv'], x), 2, 0)
    mask = np.broadcast_to(np.tril(np.ones((x.shape[1],) * 2, bool)), (len(x), H, *(x.shape[1],) * 2))
    return project(params['out'], reference.attend(query, key, value, mask), 2)


def feed_forward(params, x):
    y = project(params['in'], x)
    return project(params['out'], y * (1 + np.vectorize(math.erf)(y / 2 ** 0.5)) / 2)


def layer_norm(params, x):
    x = np.float64(x)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x * params['scale'] + params.get('bias', 0)


def block(params, x):
    x = x + attention(params['attention'], layer_norm(params['attention_norm'], x))
    return x + feed_forward(params['feed_forward'], layer_norm(params['feed_forward_norm'], x))


def make_block(bias=False, dropout=0.0, dtype=jnp.float32):
    part = dict(bias=bias, dropout=dropout, dtype=dtype)
    return nn.Block(nn.SelfAttention(H, **part), nn.FeedForward(**part), bias, dtype)


LAYERS = {  # name: (layer with or without a bias, the same in numpy)
    'attention': (functools.partial(nn.SelfAttention, H), attention),
    'feed_forward': (nn.FeedForward, feed_forward),
    'layer_norm': (lambda bias: nn.layer_norm(bias, jnp.float32), layer_norm),
    'block': (make_block, block),
}


@functools.partial(jax.jit, static_argnums=0)
def run(layer, params, *inputs):
    return layer.apply({'params': params}, *inputs)


@pytest.mark.parametrize('bias', [True, False], ids=['bias', 'no_bias'])
@pytest.mark.parametrize('name', LAYERS)
def test_a_layer_equals_its_equations(name, bias):
    make, expected = LAYERS[name]
    layer = make(bias=bias)
    params, x = draw(layer)
    has_bias = any('bias' in jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params))
    assert has_bias == bias
    result = run(layer, params, x)
    result = result[0] if isinstance(result, tuple) else result
    np.testing.assert_allclose(result, expected(params, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('name', ['attention', 'block'])
def test_no_step_looks_into_the_future_and_every_step_sees_all_of_the_past(name):
    layer = LAYERS[name][0](bias=True)
    params, x = draw(layer)
    mix = np.random.default_rng(2).standard_normal(D).astype(np.float32)
    jacobian = jax.jit(jax.jacrev(lambda x: layer.apply({'params': params}, x[None])[0][0] @ mix))(x[0])  # [T, S, D]
    np.testing.assert_array_equal(np.any(np.asarray(jacobian) != 0, axis=2), np.tril(np.ones((T, T), bool)))


def test_a_cached_step_equals_the_whole_row_even_when_rows_are_at_different_steps():
    layer = make_block(bias=True)
    params, x = draw(layer)
    whole, _ = run(layer, params, x)
    garbage = np.random.default_rng(3).standard_normal((2, B, T, H, K)).astype(np.float32)
    cache, position = tuple(garbage), np.array([0, 0])
    result = np.full((B, T, D), np.nan, np.float32)
    for take in ([2, 1], [0, 2], [1, 2], [2, 0], [1, 1]):  # of the two steps given, how many count
        places = np.minimum(position[:, None] + np.arange(2), T - 1)
        y, cache = run(layer, params, np.take_along_axis(x, places[..., None], axis=1), cache, position)
        for b in range(B):
            result[b, position[b]:position[b] + take[b]] = np.asarray(y)[b, :take[b]]
        position = position + take
    np.testing.assert_array_equal(position, [T, T])
    np.testing.assert_allclose(result, whole, atol=1e-5)


def test_a_step_past_the_end_of_the_cache_is_dropped():
    layer = nn.SelfAttention(H)
    params, x = draw(layer)
    cache = tuple(np.random.default_rng(4).standard_normal((2, B, 3, H, K)).astype(np.float32))
    _, new = run(layer, params, x[:, :1], cache, np.array([3, 1]))
    for old, now in zip(cache, jax.device_get(new)):
        np.testing.assert_array_equal(now[0], old[0])
        assert np.any(now[1, 1] != old[1, 1])
        np.testing.assert_array_equal(now[1, [0, 2]], old[1, [0, 2]])


def test_dropout_acts_in_training_only():
    layer = make_block(dropout=0.5)
    params, x = draw(layer)
    train = jax.jit(lambda key: layer.apply({'params': params}, x, train=True, rngs={'dropout': key})[0])
    first, again, other = (np.asarray(train(jax.random.key(seed))) for seed in (0, 0, 1))
    assert np.any(first != other)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(run(layer, params, x)[0], block(params, x), rtol=1e-5, atol=1e-5)


def test_bfloat16_comes_close_with_float32_parameters():
    layer = make_block(dtype=jnp.bfloat16)
    params, x = draw(make_block(), 0.3)
    result, _ = run(layer, params, jnp.asarray(x, jnp.bfloat16))
    assert result.dtype == jnp.bfloat16
    made = jax.eval_shape(layer.init, jax.random.key(0), jnp.asarray(x, jnp.bfloat16))
    assert {leaf.dtype for leaf in jax.tree.leaves(made)} == {np.dtype('float32')}
    expected = block(params, x)
    assert np.linalg.norm(np.float32(result) - expected) < 1e-2 * np.linalg.norm(expected)


def test_the_projections_that_end_a_branch_start_as_told():
    init = linen.initializers.constant(0.125)
    x = np.zeros((B, T, D), np.float32)
    for layer in (nn.SelfAttention(H, out_init=init), nn.FeedForward(out_init=init)):
        params = jax.device_get(linen.unbox(jax.jit(layer.init)(jax.random.key(0), x))['params'])
        others = [name for name in params if name != 'out']
        np.testing.assert_array_equal(params['out']['kernel'], np.full(params['out']['kernel'].shape, 0.125))
        assert len(others) == 1 and 0.01 < np.std(params[others[0]]['kernel']) < 0.03
