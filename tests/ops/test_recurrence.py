"""Recurrence against a numpy loop and against autodiff of a plain scan, over random ragged rows."""

import functools

from hypothesis import given, settings, strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from tests.reference import recurrence as reference

B, T, N = 4, 6, 3
RAGGED = np.array([6, 3, 0, 1])
LENGTHS = [pytest.param(None, id='full'), pytest.param(RAGGED, id='ragged')]
GARBAGE = [pytest.param(x, id=str(x)) for x in (1e30, np.inf, np.nan)]


def elman_cell(x, r, state):
    del state
    return jnp.tanh(x + r)[:, 0],


def gru_cell(x, r, state):
    """The candidate sees x and r in different places, so that their gradients differ."""
    h, = state
    (u, a, g), (ru, ra, rg) = jnp.moveaxis(x, -2, 0), jnp.moveaxis(r, -2, 0)
    u, a = jax.nn.sigmoid(u + ru), jax.nn.sigmoid(a + ra)
    return u * h + (1 - u) * jnp.tanh(g + a * rg),


CELLS = {  # name: (cell, gates, parts of the state)
    'lstm': (ops.lstm_cell, 4, 2),
    'elman': (elman_cell, 1, 1),
    'gru': (gru_cell, 3, 1),
}


run_lstm = jax.jit(functools.partial(ops.recur, ops.lstm_cell))


def draw(seed=0, gates=4, parts=2, shape=(B, T, N), dtype=np.float32):
    """Random kernel [N, G, N], inputs [T, B, G, N] and state."""
    rng = np.random.default_rng(seed)
    B, T, N = shape
    kernel, inputs = rng.standard_normal((N, gates, N)), rng.standard_normal((T, B, gates, N))
    state = tuple(rng.standard_normal((B, N)).astype(dtype) for _ in range(parts))
    return kernel.astype(dtype), inputs.astype(dtype), state


def plain_scan(cell, kernel, inputs, state, lengths=None):
    """recur, left to autodiff."""
    def step(state, now):
        x, t = now
        new = cell(x, jnp.einsum('bn,ngm->bgm', state[0], kernel), state)
        if lengths is None:
            return new, new[0]
        keep = (t < lengths)[:, None]
        return tuple(jnp.where(keep, n, o) for n, o in zip(new, state)), jnp.where(keep, new[0], 0)

    state, outputs = jax.lax.scan(step, state, (inputs, jnp.arange(inputs.shape[0])))
    return jnp.swapaxes(outputs, 0, 1), state


@functools.partial(jax.jit, static_argnums=(0, 1))
def gradients(run, cell, arguments, lengths=None):
    """Of a random linear function of all outputs and all parts of the final state."""
    _, inputs, state = arguments
    rng = np.random.default_rng(1)
    T, B, _, N = inputs.shape
    w_outputs, w_state = rng.standard_normal((B, T, N)), rng.standard_normal((len(state), B, N))

    def score(arguments):
        outputs, final = run(cell, *arguments, lengths)
        weigh = lambda array, weights: (array * weights.astype(array.dtype)).sum()
        return weigh(outputs, w_outputs) + sum(weigh(part, w) for part, w in zip(final, w_state))

    return jax.grad(score)(arguments)


def assert_close(actual, expected, tolerance):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance), actual, expected)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.data())
def test_any_shape_and_any_lengths_equal_the_loop(data):
    shape = B, T, N = tuple(data.draw(st.integers(1, high)) for high in (5, 7, 6))
    lengths = np.array(data.draw(st.lists(st.integers(0, T), min_size=B, max_size=B)))
    arguments = draw(data.draw(st.integers(0, 99)), shape=shape)
    assert_close(run_lstm(*arguments, lengths), reference.lstm(*arguments, lengths), 1e-5)


def test_without_lengths_every_row_runs_to_the_end():
    arguments = draw()
    outputs, final = jax.device_get(run_lstm(*arguments))
    assert_close((outputs, final), reference.lstm(*arguments), 1e-5)
    np.testing.assert_array_equal(outputs[:, -1], final[0])


def test_outputs_past_the_end_are_exactly_zero_and_the_final_state_is_the_one_at_each_rows_end():
    kernel, inputs, state = draw()
    outputs, (h, c) = jax.device_get(run_lstm(kernel, inputs, state, RAGGED))
    for b, length in enumerate(RAGGED):
        assert not np.any(outputs[b, length:])
        assert np.all(outputs[b, :length])
        np.testing.assert_array_equal(h[b], outputs[b, length - 1] if length else state[0][b])
    np.testing.assert_array_equal(c[RAGGED == 0], state[1][RAGGED == 0])


@pytest.mark.parametrize('garbage', GARBAGE)
def test_padding_changes_nothing_whatever_it_holds(garbage):
    kernel, inputs, state = draw()
    soiled = inputs.copy()
    soiled[np.arange(T)[:, None] >= RAGGED] = garbage
    clean, soiled = (kernel, inputs, state), (kernel, soiled, state)
    jax.tree.map(np.testing.assert_array_equal, run_lstm(*soiled, RAGGED), run_lstm(*clean, RAGGED))
    jax.tree.map(np.testing.assert_array_equal, gradients(ops.recur, ops.lstm_cell, soiled, RAGGED),
                 gradients(ops.recur, ops.lstm_cell, clean, RAGGED))


@pytest.mark.parametrize('cell', CELLS)
def test_padded_inputs_have_exactly_zero_gradient_and_real_ones_have_not(cell):
    cell, gates, parts = CELLS[cell]
    _, d_inputs, _ = jax.device_get(gradients(ops.recur, cell, draw(3, gates, parts), RAGGED))
    padded = np.arange(T)[:, None] >= RAGGED
    assert not np.any(d_inputs[padded])
    assert np.all(d_inputs[~padded])


@pytest.mark.parametrize('cell, lengths', [('lstm', RAGGED), ('gru', RAGGED), ('elman', RAGGED), ('lstm', None)],
                         ids=['lstm', 'gru', 'elman', 'lstm-full'])
def test_the_written_backward_pass_equals_autodiff_of_a_plain_scan(cell, lengths):
    cell, gates, parts = CELLS[cell]
    with jax.enable_x64(True):
        arguments = draw(5, gates, parts, dtype=np.float64)
        actual, expected = (gradients(run, cell, arguments, lengths) for run in (ops.recur, plain_scan))
    assert {leaf.dtype for leaf in jax.tree.leaves(actual)} == {np.dtype('float64')}
    assert all(np.abs(leaf).max() > 0.1 for leaf in jax.device_get(jax.tree.leaves(expected)))
    assert_close(actual, expected, 1e-10)


def test_the_gradient_of_the_final_state_alone_reaches_the_first_input_and_the_initial_state():
    def score(run, inputs, state):
        return (run(ops.lstm_cell, kernel, inputs, state, RAGGED)[1][1] ** 2).sum()

    with jax.enable_x64(True):
        kernel, inputs, state = draw(6, dtype=np.float64)
        actual, expected = (jax.jit(jax.grad(functools.partial(score, run), argnums=(0, 1)))(inputs, state)
                            for run in (ops.recur, plain_scan))
    d_inputs, (d_h, d_c) = jax.device_get(actual)
    assert_close(actual, expected, 1e-10)
    assert np.all(d_inputs[0, RAGGED > 1])
    empty = RAGGED == 0
    np.testing.assert_array_equal(d_c[empty], 2 * state[1][empty])
    assert not np.any(d_h[empty])


@pytest.mark.parametrize('lengths', LENGTHS)
def test_eager_equals_compiled(lengths):
    arguments = draw(7)
    assert_close(ops.recur(ops.lstm_cell, *arguments, lengths), run_lstm(*arguments, lengths), 1e-6)


@pytest.mark.parametrize('function', [lambda arguments, lengths: run_lstm(*arguments, lengths),
                                      functools.partial(gradients, ops.recur, ops.lstm_cell)], ids=['forward', 'backward'])
def test_vmap_equals_a_loop(function):
    stack = lambda trees: jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    many, lengths = [draw(seed) for seed in range(3)], np.stack([RAGGED, RAGGED[::-1], RAGGED[[1, 0, 3, 2]]])
    expected = stack([function(arguments, n) for arguments, n in zip(many, lengths)])
    assert_close(jax.vmap(function)(stack(many), lengths), expected, 1e-5)


def test_a_bfloat16_kernel_keeps_a_float32_state_and_comes_close():
    kernel, inputs, state = draw(8)
    exact, rounded = (kernel, inputs, state), (jnp.asarray(kernel, jnp.bfloat16), inputs, state)
    actual, expected = jax.device_get([run_lstm(*arguments, RAGGED) for arguments in (rounded, exact)])
    assert {leaf.dtype for leaf in jax.tree.leaves(actual)} == {np.dtype('float32')}
    assert np.any(actual[0] != expected[0])
    assert_close(actual, expected, 2e-2)
    actual, expected = jax.device_get([gradients(ops.recur, ops.lstm_cell, each, RAGGED) for each in (rounded, exact)])
    assert [leaf.dtype for leaf in jax.tree.leaves(actual)] == [jnp.bfloat16] + [np.float32] * 3
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected)):
        assert np.linalg.norm(np.float32(a) - e) < 1e-2 * np.linalg.norm(e)
