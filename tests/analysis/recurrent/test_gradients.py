"""Gradient flow against plain autodiff of the whole recurrence, and against what is known in closed form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.analysis.recurrent import gradients
from seqjax.analysis.recurrent.layers import RecurrentCall

B, T, D, N = 2, 6, 3, 4
flow_of = jax.jit(functools.partial(gradients.gradient_flow, rows=B, top=3, exponents=N))


def make_call(cell, *, scale=0.8, lengths=(T, 4), reverse=False, steps=T, width=N, seed=0):
    """A layer with random weights that is called on random inputs."""
    keys = iter(jax.random.split(jax.random.key(seed), 20))
    weights = {name: scale * jax.random.normal(next(keys), shape) for name, shape in cell.weight_shapes(D, width).items()}
    state = tuple(jnp.full((len(lengths), *part.shape), 0.1, part.dtype) for part in cell.state(width).values())
    lengths = jnp.array(lengths, jnp.int32)
    inputs = jax.random.normal(next(keys), (*lengths.shape, steps, D))
    return RecurrentCall(cell, reverse, weights, inputs, lengths, state, lengths)


def small(cell):
    return ops.ProjectedLSTM(width=2) if isinstance(cell, ops.ProjectedLSTM) else cell


CELLS = {name: small(cell) for name, cell in ops.CELLS.items()}


@jax.jit
def whole_jacobians(call):
    """ds_T / ds_0 [B, P, P] and the outputs, by autodiff of `ops.recur`."""
    def end(reals, row):
        one = jax.tree.map(lambda x: x[row][None], (call.inputs, call.lengths))
        _, state = ops.recur(call.cell, call.weights, one[0], gradients.as_state(reals[None], call.state), one[1],
                             reverse=call.reverse)
        return gradients.as_reals(state)[0]

    start = gradients.as_reals(call.state)
    return jnp.stack([jax.jacrev(end)(start[row], row) for row in range(start.shape[0])])


@pytest.mark.parametrize('name, reverse', [*((name, False) for name in CELLS), ('lstm', True), ('lru', True)])
def test_the_products_of_step_jacobians_are_the_jacobian_of_the_recurrence(name, reverse):
    call = make_call(CELLS[name], reverse=reverse)
    whole, flow = np.asarray(whole_jacobians(call)), flow_of(call)
    P = whole.shape[-1]
    for row, length in enumerate(call.lengths):
        np.testing.assert_allclose(np.exp(flow.norm[row, length]), np.linalg.norm(whole[row]) / np.sqrt(P), rtol=1e-4)
        values = np.linalg.svd(whole[row], compute_uv=False)[:3]
        np.testing.assert_allclose(np.exp(flow.singular[row, length]), values, rtol=1e-3, atol=1e-4 * values[0])
        assert np.isnan(flow.norm[row, length + 1:]).all() and not np.isnan(flow.norm[row, :length + 1]).any()
    final = jax.jit(lambda call: ops.recur(call.cell, call.weights, call.inputs, call.state, call.lengths,
                                           reverse=call.reverse)[1])(call)
    np.testing.assert_allclose(flow.states[:, -1], gradients.as_reals(final), atol=1e-5)


@pytest.mark.parametrize('name', ['lstm', 'lru'])
def test_step_jacobians_multiply_to_the_jacobian_of_the_recurrence(name):
    call = make_call(CELLS[name], reverse=True)
    steps, whole = np.asarray(jax.jit(gradients.step_jacobians)(call)), whole_jacobians(call)
    for row in range(B):
        np.testing.assert_allclose(functools.reduce(np.matmul, steps[row, ::-1]), whole[row], atol=2e-5)


@pytest.mark.parametrize('name', CELLS)
def test_norms_start_at_one_and_stay_under_the_product_of_the_steps_norms(name):
    flow = flow_of(make_call(CELLS[name]))
    np.testing.assert_array_equal(flow.norm[:, 0], 0)
    valid = ~np.isnan(flow.norm)
    assert (flow.singular[:, :, 0][valid] <= flow.step_norms[valid] + 1e-4).all()
    assert (flow.norm[valid] <= flow.singular[:, :, 0][valid] + 1e-4).all()


@pytest.mark.parametrize('activation', ['tanh', 'relu', 'modrelu', 'identity'])
@pytest.mark.parametrize('scale', [0.2, 1.0, 3.0])
def test_an_elman_network_stays_under_its_bound(activation, scale):
    flow = flow_of(make_call(ops.Elman(activation), scale=scale))
    valid = ~np.isnan(flow.norm)
    assert (flow.singular[:, :, 0][valid] <= flow.bound[valid] + 1e-4).all()


def test_the_bound_of_a_linear_network_is_reached():
    call = make_call(ops.Elman('identity'), lengths=(1,), steps=1)
    flow = jax.jit(functools.partial(gradients.gradient_flow, rows=1))(call)
    np.testing.assert_allclose(flow.singular[0, 1, 0], flow.bound[0, 1], rtol=1e-5)


def test_only_elman_networks_have_the_bound_and_only_cells_with_a_memory_a_cell_path():
    lstm, gru = flow_of(make_call(CELLS['lstm'])), flow_of(make_call(CELLS['gru']))
    assert lstm.bound is None and gru.bound is None
    assert gru.cell_path is None and gru.hidden_path is None and lstm.cell_path is not None


# ----------------------------------------------------------------------------------------------------------- Closed forms
def rotation(scale, steps):
    """A linear network whose recurrent matrix turns the plane and stretches it by `scale`."""
    call = make_call(ops.Elman('identity'), lengths=(steps,), steps=steps, width=2)
    turn = jnp.array([[jnp.cos(0.3), -jnp.sin(0.3)], [jnp.sin(0.3), jnp.cos(0.3)]])
    return call.replace(weights={**call.weights, 'recurrent_kernel': scale * turn[:, None]})


@pytest.mark.parametrize('scale', [1.0, 0.9, 1.1])
def test_the_lyapunov_exponents_of_a_scaled_rotation_are_the_logarithm_of_the_scale(scale):
    flow = jax.jit(functools.partial(gradients.gradient_flow, rows=1))(rotation(scale, 30))
    np.testing.assert_allclose(flow.exponents, np.full((1, 2), np.log(scale)), atol=1e-5)
    np.testing.assert_allclose(flow.norm[0], np.arange(31) * np.log(scale), atol=1e-4)


def test_an_orthogonal_network_has_exponents_zero():
    cell = ops.Orthogonal('identity')
    np.testing.assert_allclose(flow_of(make_call(cell)).exponents, 0, atol=1e-5)


def test_a_gradient_far_below_float32_is_still_measured():
    flow = jax.jit(functools.partial(gradients.gradient_flow, rows=1))(rotation(1e-3, 100))
    np.testing.assert_allclose(flow.norm[0, 100] / np.log(10), -300, rtol=1e-5)
    np.testing.assert_allclose(flow.singular[0, 100] / np.log(10), [-300, -300], rtol=1e-5)
    np.testing.assert_allclose(flow.exponents, np.log(1e-3), rtol=1e-5)
    logs = jax.jit(gradients.followed_gradient)(rotation(1e-3, 100), jnp.ones((1, 2)))
    np.testing.assert_allclose((logs[0, 100] - logs[0, 0]) / np.log(10), -300, rtol=1e-5)


def test_a_gradient_that_is_cut_off_is_zero_and_not_a_mistake():
    call = make_call(ops.Elman('relu'))
    dead = call.replace(weights={**call.weights, 'bias': jnp.full((1, N), -100.0)})
    flow = flow_of(dead)
    assert np.isneginf(flow.norm[:, 2:4]).all() and flow.saturation['h'] == 1


def test_the_cell_path_is_the_product_of_the_forget_gates():
    call = make_call(CELLS['lstm'], lengths=(T, T))
    flow = flow_of(call)
    inputs, _ = call.in_order()
    forget = np.asarray(jax.jit(gradients.gate_values)(call, flow.states, inputs))[:, :, 1]  # [B, T, N]
    for lag in range(1, T + 1):
        product = forget[:, T - lag:].prod(axis=1)
        np.testing.assert_allclose(np.exp(flow.cell_path[:, lag]), np.sqrt((product ** 2).mean(-1)), rtol=1e-4)
    steps = np.asarray(jax.jit(gradients.step_jacobians)(call))
    whole = functools.reduce(np.matmul, steps[0, ::-1])[N:, N:]
    rest = whole - np.diag(forget[0].prod(axis=0))
    np.testing.assert_allclose(np.exp(flow.hidden_path[0, T]), np.linalg.norm(rest) / np.sqrt(N), rtol=1e-3)
    assert np.isneginf(flow.hidden_path[:, 0]).all()


def test_without_recurrent_weights_only_the_cell_path_is_left():
    call = make_call(CELLS['lstm'])
    alone = call.replace(weights={**call.weights, 'recurrent_kernel': jnp.zeros((N, 4, N))})
    flow = flow_of(alone)
    assert (flow.hidden_path[0] < flow.cell_path[0] - 10).all()


def test_the_followed_gradient_is_the_product_with_the_jacobian():
    call = make_call(CELLS['gru'])
    gradient = jax.random.normal(jax.random.key(5), (B, N))
    logs, whole = jax.jit(gradients.followed_gradient)(call, gradient), whole_jacobians(call)
    for row, length in enumerate(call.lengths):
        np.testing.assert_allclose(np.exp(logs[row, length]), np.linalg.norm(gradient[row] @ whole[row]), rtol=1e-4)


@pytest.mark.parametrize('bias, fraction', [(0.0, 0.0), (100.0, 1.0), (-100.0, 1.0)])
def test_saturated_gates_are_counted(bias, fraction):
    call = make_call(CELLS['lstm'], scale=0.01)
    flow = flow_of(call.replace(weights={**call.weights, 'bias': jnp.full((4, N), bias)}))
    assert {name: float(part) for name, part in flow.saturation.items()} == dict.fromkeys('ifgo', fraction)


def test_gates_without_limits_do_not_saturate():
    assert set(flow_of(make_call(CELLS['lru'])).saturation) == set()
    assert set(flow_of(make_call(CELLS['min_gru'])).saturation) == {'u'}


def test_only_the_last_steps_are_followed_when_asked():
    call = make_call(CELLS['elman'], lengths=(T, T))
    part = jax.jit(functools.partial(gradients.gradient_flow, rows=1, steps=3))(call)
    np.testing.assert_allclose(part.norm, flow_of(call).norm[:1, :4], rtol=1e-5)
    assert gradients.affordable_steps(512) == 256 and gradients.affordable_steps(4096) == 64


# ------------------------------------------------------------------------------------------------------- What they say
def test_the_horizon_is_the_first_lag_under_one_percent():
    logs = np.log([1, 0.5, 0.009, 0.5, 0.001])
    assert gradients.horizon(logs) == 2 and gradients.horizon(logs, fraction=0.005) == 4
    assert gradients.horizon(np.zeros(5)) is None and gradients.horizon(np.array([0.0, np.nan])) is None
    assert gradients.horizon(np.array([0.0, -np.inf])) == 1


def test_verdicts():
    assert [gradients.verdict(np.array([0, end])) for end in (-5, 0, 5)] == ['vanishing', 'stable', 'exploding']
    assert gradients.verdict(np.array([0, -9, np.nan])) == 'vanishing'


def test_rows_are_averaged_where_they_reach():
    rows = np.array([[0, -2, np.nan], [0, -4, -6], [0, np.nan, np.nan]])
    np.testing.assert_allclose(gradients.mean_over_rows(rows), [0, -3, -6])


def test_one_gradient_in_ten_is_longer_than_the_suggested_clip():
    norms = np.random.default_rng(0).exponential(size=1000)
    assert (norms > gradients.suggested_clip(norms)).mean() == pytest.approx(0.1, abs=0.01)
    assert gradients.suggested_clip([np.inf, np.nan]) is None and gradients.suggested_clip([2.0, np.inf]) == 2
