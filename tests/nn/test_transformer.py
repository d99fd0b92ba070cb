"""Layers, blocks and stacks of a Transformer against numpy, and caches against doing without them."""

import functools
import types

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from tests.reference import transformer as reference
from tests.reference.parameters import random_parameters

B, T, S, D, H, L = 2, 6, 5, 8, 4, 2
CAUSAL = nn.Context(ops.Mask(causal=True))
norm = functools.partial(nn.make_norm, 'layer')


def draw(layer, *more, scale=0.5):
    x = np.random.default_rng(1).standard_normal((B, T, D)).astype(np.float32)
    return random_parameters(layer, x, *more, scale=scale), x


def make_block(bias=True, dropout=0.0, dtype=jnp.float32, norm_position='pre', cross=False, kind='layer', kv_heads=0, name=None,
               **network):
    part = dict(bias=bias, dtype=dtype, parent=None)
    heads = dict(kv_heads=kv_heads, **part)
    return nn.Block(nn.MultiHeadAttention(D, H, **heads), nn.FeedForward(**network, **part),
                    functools.partial(nn.make_norm, kind, bias=bias, dtype=dtype), nn.CrossAttention(D, H, **heads) if cross else None,
                    norm_position, dropout, name=name)


@functools.partial(jax.jit, static_argnums=0)
def run(layer, params, *inputs, **options):
    return layer.apply({'params': params}, *inputs, **options)


def initialised(layer, **options):
    """A layer whose init is given these options."""
    return types.SimpleNamespace(init=functools.partial(layer.init, **options))


LAYERS = {  # name: (layer, the same in numpy)
    'attention': (nn.MultiHeadAttention(D, H), reference.attention),
    'attention_with_biases': (nn.MultiHeadAttention(D, H, bias=True), reference.attention),
    'grouped_queries': (nn.MultiHeadAttention(D, H, kv_heads=2, bias=True), reference.attention),
    'multi_query': (nn.MultiHeadAttention(D, H, kv_heads=1, head_width=3), reference.attention),
    'scaled': (nn.MultiHeadAttention(D, H, scale=1.0), functools.partial(reference.attention, scale=1.0)),
    'pre': (make_block(), reference.block),
    'post': (make_block(norm_position='post'), functools.partial(reference.block, norm_position='post')),
    'llama': (make_block(bias=False, kind='rms', kv_heads=2, activation='silu', gated=True, inner=12),
              functools.partial(reference.block, norm=reference.rms_norm, activation='silu')),
}


@pytest.mark.parametrize('name', LAYERS)
def test_a_layer_equals_its_equations(name):
    layer, expected = LAYERS[name]
    params, x = draw(layer)
    result = run(layer, params, x, CAUSAL)[0]
    np.testing.assert_allclose(result, expected(params, x, reference.causal(B, T)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('bias', [True, False], ids=['bias', 'no_bias'])
@pytest.mark.parametrize('gated', [True, False], ids=['gated', 'plain'])
@pytest.mark.parametrize('activation', nn.ACTIVATIONS)
def test_a_feed_forward_network_equals_its_equation(activation, gated, bias):
    layer = nn.FeedForward(12, activation, gated, bias=bias)
    params, x = draw(layer)
    assert ('bias' in params['in']) == bias and ('gate' in params) == gated
    np.testing.assert_allclose(run(layer, params, x), reference.feed_forward(params, x, activation), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('chosen, gated, bias', [(1, False, True), (2, True, False), (3, False, False)])
def test_a_mixture_of_experts_is_the_weighted_sum_of_those_that_a_step_chose(chosen, gated, bias):
    layer = nn.MixtureOfExperts(3, chosen, inner=5, gated=gated, bias=bias)
    params, x = draw(layer)
    np.testing.assert_allclose(run(layer, params, x), reference.mixture(params, x, chosen), rtol=1e-5, atol=1e-5)


def test_the_balance_of_experts_is_least_where_all_are_used_alike():
    layer = nn.MixtureOfExperts(2, 1, balance=1.0, inner=3)
    params, _ = draw(layer)
    params['router']['kernel'] = np.eye(D, 2, dtype=np.float32) * 20

    def penalty(x):
        return float(layer.apply({'params': params}, x, train=True, mutable=['penalties'])[1]['penalties']['balance'])

    one = np.zeros((1, 4, D), np.float32)
    one[..., 0] = 1
    both = one.copy()
    both[:, ::2] = np.roll(one[:, ::2], 1, axis=-1)
    assert penalty(both) == pytest.approx(4 * 1.0, rel=1e-4)  # a sum over the 4 steps
    assert penalty(one) == pytest.approx(4 * 2.0, rel=1e-4)
    rows = draw(layer)[1]
    assert penalty(rows) == pytest.approx(sum(penalty(row[None]) for row in rows), rel=1e-5)  # as micro-batches and devices add it


@pytest.mark.parametrize('norm_position', nn.NORM_POSITIONS)
def test_a_block_looks_at_a_source_up_to_its_length(norm_position):
    layer = make_block(cross=True, norm_position=norm_position, kv_heads=2)
    rng, lengths = np.random.default_rng(5), np.array([3, 5], np.int32)
    x, outputs = (rng.standard_normal((B, steps, D)).astype(np.float32) for steps in (T, S))
    context = nn.Context(ops.Mask(causal=True), source=ops.Mask(lengths=lengths), look=True)
    look = lambda block, x: block(x, context, (None, block.cross.read(outputs), None))
    params = random_parameters(initialised(layer, method=look), x)
    y, (cache, weights, _) = jax.jit(functools.partial(layer.apply, method=look))({'params': params}, x)
    expected = reference.block(params, x, reference.causal(B, T), norm_position=norm_position, memory=outputs,
                               memory_mask=reference.until(lengths, T, S))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    assert cache is None and weights.shape == (B, T, S)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    assert not np.any(weights[0, :, 3:])


def test_hypotheses_of_a_row_share_its_memory():
    layer = nn.CrossAttention(D, H)
    memory = tuple(np.random.default_rng(6).standard_normal((2, 1, S, H, D // H)).astype(np.float32))
    x = np.random.default_rng(7).standard_normal((3, 1, D)).astype(np.float32)
    params = random_parameters(layer, x, nn.Context(), memory)
    together, _ = run(layer, params, x, nn.Context(), memory)
    alone = np.concatenate([run(layer, params, row[None], nn.Context(), memory)[0] for row in x])
    np.testing.assert_allclose(together, alone, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize('window', [0, 1, 3])
@pytest.mark.parametrize('causal', [True, False], ids=['causal', 'full'])
def test_gradients_reach_exactly_what_a_step_may_look_at(window, causal):
    layer = make_block()
    mask = ops.Mask(causal=causal, window=window)
    params, x = draw(layer)
    mix = np.random.default_rng(2).standard_normal(D).astype(np.float32)
    where = nn.Context(mask)
    jacobian = jax.jit(jax.jacrev(lambda x: layer.apply({'params': params}, x[None], where)[0][0] @ mix))(x[0])  # [T, S, D]
    seen = np.any(np.asarray(jacobian) != 0, axis=2)
    t, s = np.indices((T, T))
    low, high = (window - 1, 0) if causal else (window // 2, (window - 1) // 2)
    expected = (s <= t) if causal and not window else np.ones((T, T), bool) if not window else (t - low <= s) & (s <= t + high)
    np.testing.assert_array_equal(seen, expected)


def test_without_positions_the_order_of_the_steps_makes_no_difference():
    layer, order = make_block(), np.random.default_rng(3).permutation(T)
    params, x = draw(layer)
    np.testing.assert_allclose(run(layer, params, x[:, order])[0], np.asarray(run(layer, params, x)[0])[:, order], atol=1e-5)
    turned = nn.MultiHeadAttention(D, H, rotary=10000.0)
    params, x = draw(turned, nn.Context(steps=jnp.arange(T)))
    where = nn.Context(steps=jnp.arange(T))
    moved, whole = run(turned, params, x[:, order], where)[0], np.asarray(run(turned, params, x, where)[0])[:, order]
    assert np.abs(moved - whole).max() > 1e-2


@pytest.mark.parametrize('layer', [make_block(kv_heads=2), make_block(norm_position='post'), nn.LinearAttention(D, H)],
                         ids=['grouped', 'post', 'linear'])
def test_a_cached_step_equals_the_whole_row_even_when_rows_are_at_different_steps(layer):
    params, x = draw(layer)
    whole = run(layer, params, x, CAUSAL)[0]
    empty = layer.empty_state if isinstance(layer, nn.LinearAttention) else layer.empty_states
    cache, position = empty(B, T), np.zeros(B, np.int32)
    if not isinstance(layer, nn.LinearAttention):  # what slots held before is of no interest
        cache = jax.tree.map(lambda x: x + jnp.float32(7), cache)
    result = np.full((B, T, D), np.nan, np.float32)
    for take in ([2, 1], [0, 2], [1, 2], [2, 0], [1, 1]):  # of the two steps given, how many count
        places = np.minimum(position[:, None] + np.arange(2), T - 1)
        where = CAUSAL.replace(position=position, lengths=np.array(take, np.int32))
        y, cache = run(layer, params, np.take_along_axis(x, places[..., None], axis=1), where, cache)[:2]
        for b in range(B):
            result[b, position[b]:position[b] + take[b]] = np.asarray(y)[b, :take[b]]
        position = position + np.array(take, np.int32)
    np.testing.assert_array_equal(position, [T, T])
    np.testing.assert_allclose(result, whole, atol=1e-5)


def test_a_step_past_the_end_of_the_cache_is_dropped():
    layer = nn.MultiHeadAttention(D, H)
    params, x = draw(layer)
    cache = tuple(np.random.default_rng(4).standard_normal((2, B, 3, H, D // H)).astype(np.float32))
    _, new = run(layer, params, x[:, :1], CAUSAL.replace(position=np.array([3, 1], np.int32)), cache)
    for old, now in zip(cache, jax.device_get(new)):
        np.testing.assert_array_equal(now[0], old[0])
        assert np.any(now[1, 1] != old[1, 1])
        np.testing.assert_array_equal(now[1, [0, 2]], old[1, [0, 2]])


@pytest.mark.parametrize('remat', [False, True], ids=['', 'remat'])
def test_a_scanned_stack_equals_blocks_one_by_one(remat):
    stack = lambda scan: nn.Stack(make_block, L, norm, scan_layers=scan, remat=remat)
    params, x = draw(stack(False))
    blocks = [params[f'block_{layer}'] for layer in range(L)]
    stacked = dict(norm=params['norm'], blocks=jax.tree.map(lambda *leaves: np.stack(leaves), *blocks))

    def outputs(scan, params):
        y, _ = stack(scan).apply({'params': params}, x, CAUSAL)
        return (y ** 2).sum(), y

    gradients = jax.jit(jax.grad(outputs, argnums=1, has_aux=True), static_argnums=0)
    (one_by_one, y), (scanned, z) = gradients(False, params), gradients(True, stacked)
    np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-5)
    expected = x
    for block in blocks:
        expected = reference.block(block, expected, reference.causal(B, T))
    np.testing.assert_allclose(y, reference.layer_norm(params['norm'], expected), rtol=1e-4, atol=1e-4)
    restacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[one_by_one[f'block_{layer}'] for layer in range(L)])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), restacked, scanned['blocks'])


def test_a_scanned_stack_names_the_axis_of_its_layers():
    boxed = jax.eval_shape(nn.Stack(make_block, L, norm, scan_layers=True).init, jax.random.key(0), np.zeros((B, T, D), np.float32))
    assert boxed['params']['blocks']['attention']['query']['kernel'].names == ('layers', 'embed', 'heads', None)


def test_dropout_acts_in_training_only_and_on_weights_too():
    for layer in (make_block(dropout=0.5), nn.MultiHeadAttention(D, H, dropout=0.5)):
        params, x = draw(layer)
        train = jax.jit(lambda key: layer.apply({'params': params}, x, train=True, rngs={'dropout': key})[0])
        first, again, other = (np.asarray(train(jax.random.key(seed))) for seed in (0, 0, 1))
        assert np.any(first != other)
        np.testing.assert_array_equal(first, again)
        assert np.any(first != run(layer, params, x)[0])


def test_bfloat16_comes_close_with_float32_parameters():
    layer = make_block(dtype=jnp.bfloat16)
    params, x = draw(make_block(), scale=0.3)
    result = run(layer, params, jnp.asarray(x, jnp.bfloat16), CAUSAL)[0]
    assert result.dtype == jnp.bfloat16
    made = jax.eval_shape(layer.init, jax.random.key(0), jnp.asarray(x, jnp.bfloat16))
    assert {leaf.dtype for leaf in jax.tree.leaves(made)} == {np.dtype('float32')}
    expected = reference.block(params, x, reference.causal(B, T))
    assert np.linalg.norm(np.float32(result) - expected) < 1e-2 * np.linalg.norm(expected)


def test_the_projections_that_end_a_branch_start_as_told():
    init = linen.initializers.constant(0.125)
    x = np.zeros((B, T, D), np.float32)
    for layer in (nn.MultiHeadAttention(D, H, out_init=init), nn.FeedForward(out_init=init)):
        params = jax.device_get(linen.unbox(jax.jit(layer.init)(jax.random.key(0), x))['params'])
        np.testing.assert_array_equal(params['out']['kernel'], np.full(params['out']['kernel'].shape, 0.125))


@pytest.mark.parametrize('contract, shape', [(1, (400, 3, 50)), (2, (20, 20, 100))])
def test_fan_in_keeps_the_variance(contract, shape):
    kernel = np.asarray(nn.fan_in(contract, 2.0)(jax.random.key(0), shape))
    assert kernel.var() * 400 == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize('kind, seen', [('learned', True), ('sinusoidal', True), ('rotary', False), ('none', False)])
def test_positions_add_to_inputs_or_leave_them(kind, seen):
    layer = nn.Positions(kind, D, H, length=T)
    params = random_parameters(layer, jnp.arange(T))
    added = layer.apply({'params': params}, jnp.array([[2, 0], [1, 1]]))
    assert (added is not None) == seen
    if seen:
        whole = layer.apply({'params': params}, jnp.arange(T))
        np.testing.assert_array_equal(added, np.asarray(whole)[[[2, 0], [1, 1]]])
        assert len({tuple(row) for row in np.asarray(whole)}) == T


@pytest.mark.parametrize('causal', [True, False], ids=['causal', 'full'])
def test_a_relative_bias_is_that_of_the_bucket_of_the_distance(causal):
    layer = nn.Positions('relative', D, H, causal=causal, buckets=8, limit=16)
    params = random_parameters(layer, jnp.arange(T))
    bias = np.asarray(layer.apply({'params': params}, S, method='bias'))
    assert bias.shape == (H, 2 * S - 1)
    for t in range(S):
        for s in range(S):
            bucket = int(ops.relative_buckets(jnp.array(s - t), 8, 16, causal))
            np.testing.assert_array_equal(bias[:, t - s + S - 1], params['table'][bucket])
