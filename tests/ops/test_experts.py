"""Experts in groups against all experts, and both against a loop over steps: outputs and every gradient."""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.analysis.cost.flops import matmul_flops

D, F = 6, 10
KINDS = {'plain': (False, False), 'gated': (True, False), 'biases': (False, True), 'gated, biases': (True, True)}
CASES = {  # B, T, E, k
    'groups': (3, 7, 5, 2),
    'one chosen': (2, 9, 4, 1),
    'one expert': (2, 5, 1, 1),
    'all chosen': (2, 5, 3, 3),
    'one step': (1, 1, 6, 2),
    'long groups': (4, 40, 2, 1),  # several blocks each
}


def draw(case, gated=False, bias=False, dtype=np.float32):
    """x, kernels, which, weights."""
    B, T, E, k = CASES[case]
    rng = np.random.default_rng(len(case))
    normal = lambda *shape: jnp.asarray(rng.standard_normal(shape), dtype)
    kernels = dict(in_kernel=normal(E, D, F), out_kernel=normal(E, F, D), **(dict(gate_kernel=normal(E, D, F)) if gated else {}))
    if bias:
        kernels |= {f'{name[:-7]}_bias': normal(E, kernel.shape[2]) for name, kernel in kernels.items()}
    which = rng.permuted(np.broadcast_to(np.arange(E, dtype=np.int32), (B, T, E)), axis=-1)[..., :k]
    return normal(B, T, D), kernels, which, jnp.asarray(rng.uniform(0.1, 1, (B, T, k)), dtype)


def loop(x, kernels, which, weights):
    """Step by step, expert by expert, in float64."""
    x, weights = np.float64(x), np.float64(weights)
    kernels = {name: np.float64(kernel) for name, kernel in kernels.items()}
    layer = lambda name, e, x: x @ kernels[f'{name}_kernel'][e] + kernels.get(f'{name}_bias', np.zeros((99, 1)))[e]
    out = np.zeros(x.shape)
    for b, t, n in np.ndindex(which.shape):
        e, step = which[b, t, n], x[b, t]
        y = np.tanh(layer('in', e, step)) * (layer('gate', e, step) if 'gate_kernel' in kernels else 1)
        out[b, t] += weights[b, t, n] * layer('out', e, y)
    return out


@functools.partial(jax.jit, static_argnames='method')
def run(x, kernels, which, weights, method=None):
    """Outputs and the gradients of x, all kernels and the weights."""
    def loss(x, kernels, weights):
        y = ops.mix_experts(x, kernels, which, weights, activation=jnp.tanh, method=method)
        return (y.astype(jnp.float32) * jnp.cos(jnp.arange(y.size, dtype=jnp.float32)).reshape(y.shape)).sum(), y

    gradients, y = jax.grad(loss, (0, 1, 2), has_aux=True)(x, kernels, weights)
    return y, gradients


def assert_close(actual, expected, tolerance=1e-5):
    def close(path, actual, expected):
        assert actual.dtype == expected.dtype
        actual, expected = np.float32(actual), np.float32(expected)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1, np.abs(expected).max()), err_msg=str(path))

    jax.tree_util.tree_map_with_path(close, actual, expected)


@pytest.mark.parametrize('kind', KINDS)
def test_every_way_has_the_outputs_of_a_loop_and_the_gradients_of_all_experts(kind):
    inputs = draw('groups', *KINDS[kind])
    expected = run(*inputs, method='all')
    np.testing.assert_allclose(expected[0], loop(*inputs), rtol=1e-5, atol=1e-5)
    for method in ('blocks', 'ragged', None) if kind == 'gated, biases' else ('blocks',):
        assert_close(run(*inputs, method=method), expected)


@pytest.mark.parametrize('case', [case for case in CASES if case != 'groups'])
def test_so_do_groups_of_every_size(case):
    inputs = draw(case, gated=True)
    expected = run(*inputs, method='all')
    np.testing.assert_allclose(expected[0], loop(*inputs), rtol=1e-5, atol=1e-5)
    assert_close(run(*inputs, method='blocks'), expected)


@pytest.mark.parametrize('expert', [0, 1])
def test_all_steps_may_choose_the_same_expert_and_none_is_dropped(expert):
    x, kernels, which, weights = draw('long groups', bias=True)
    which = np.full_like(which, expert)
    y, gradients = run(x, kernels, which, weights, method='blocks')
    np.testing.assert_allclose(y, loop(x, kernels, which, weights), rtol=1e-5, atol=1e-5)
    assert_close((y, gradients), run(x, kernels, which, weights, method='all'))
    for gradient in gradients[1].values():
        assert np.abs(gradient[expert]).min() > 0 and not np.asarray(gradient[1 - expert]).any()


def test_in_bfloat16_it_is_close_to_float32():
    exact = run(*draw('long groups', gated=True, bias=True), method='all')
    low = run(*draw('long groups', gated=True, bias=True, dtype=jnp.bfloat16), method='blocks')
    assert_close(low, jax.tree.map(lambda x: x.astype(jnp.bfloat16), exact), tolerance=0.03)


def test_what_a_step_says_depends_on_no_other_not_even_where_one_is_not_a_number():
    x, kernels, which, weights = draw('groups', gated=True)
    y, _ = run(x, kernels, which, weights, method='blocks')
    other = x.at[:, 4:].set(100.0)
    np.testing.assert_allclose(run(other, kernels, which, weights, method='blocks')[0][:, :4], y[:, :4], rtol=0, atol=1e-6)
    broken = run(x.at[0, 6].set(jnp.nan), kernels, which, weights, method='blocks')[0]
    np.testing.assert_allclose(broken[:, :6], y[:, :6], rtol=0, atol=1e-6)
    assert np.isnan(broken[0, 6]).all() and np.isfinite(broken[1:]).all()


def test_steps_of_weight_zero_leave_no_gradient():
    x, kernels, which, weights = draw('groups', gated=True, bias=True)
    past = weights.at[:, 4:].set(0.0)
    _, (d_x, d_kernels, _) = run(x, kernels, which, past, method='blocks')
    assert not np.asarray(d_x[:, 4:]).any()
    cut = run(x.at[:, 4:].set(7.0), kernels, which, past, method='blocks')[1][1]
    assert_close(cut, d_kernels)


def test_which_experts_are_chosen_compiles_nothing_anew():
    x, kernels, which, weights = draw('groups')
    compiled = jax.jit(functools.partial(ops.mix_experts, activation=jnp.tanh))
    for shift in range(3):
        compiled(x, kernels, (which + shift) % 5, weights)
    compiled(x, kernels, np.stack([np.zeros_like(which[..., 0]), np.ones_like(which[..., 0])], -1), weights)
    assert compiled._cache_size() == 1


@pytest.mark.parametrize('gated', [False, True], ids=['plain', 'gated'])
def test_only_what_was_chosen_counts(gated):
    (B, T, E, k), inputs = CASES['groups'], draw('groups', gated)
    mix = functools.partial(ops.mix_experts, activation=jnp.tanh)
    products, sums = (2 + gated) * 2 * B * T * D * F, 2 * B * T * k * D
    assert matmul_flops(mix, *inputs) == k * products + sums
    assert matmul_flops(functools.partial(mix, method='all'), *inputs) == E * products
    loss = lambda x, kernels, which, weights: mix(x, kernels, which, weights).sum()
    assert matmul_flops(jax.value_and_grad(loss, (0, 1, 3)), *inputs) == 3 * (k * products + sums)


def test_the_program_for_a_cpu_has_no_product_over_all_experts():
    E, n, k = 16, 64, 2
    x, kernels = jnp.zeros((1, n, D)), dict(in_kernel=jnp.zeros((E, D, F)), out_kernel=jnp.zeros((E, F, D)))
    which, weights = jnp.zeros((1, n, k), jnp.int32), jnp.ones((1, n, k))
    text = jax.jit(functools.partial(ops.mix_experts, activation=jnp.tanh)).lower(x, kernels, which, weights).compile().as_text()
    made = [re.search(r'= \w+\[([\d,]*)\]', line)[1] for line in text.splitlines() if ' dot(' in line]
    assert len(made) >= 2 and max(math.prod(map(int, sizes.split(','))) for sizes in made) <= n * k * D


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method='some'; choose one of all, blocks, ragged"):
        ops.mix_experts(*draw('groups'), activation=jnp.tanh, method='some')
