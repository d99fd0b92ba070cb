"""What single cells promise beside their equations."""

import dataclasses
import functools

from hypothesis import given, settings
from hypothesis import strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import ops
from seqjax.errors import FieldError
from tests.reference import recurrence as reference

B, T, D, N = 3, 5, 2, 4
LENGTHS = np.array([5, 0, 3])


def draw(cell, seed=0):
    """Random weights, inputs and state in float64."""
    rng = np.random.default_rng(seed)
    weights = {name: 0.7 * rng.standard_normal(shape) for name, shape in cell.weight_shapes(D, N).items()}
    state = tuple(rng.standard_normal((B, *part.shape)) for part in cell.state(N).values())
    return weights, rng.standard_normal((B, T, D)), state


def recur(cell, *arguments):
    with jax.enable_x64(True):
        return jax.device_get(jax.jit(functools.partial(ops.recur, cell))(*arguments))


def assert_close(actual, expected, tolerance):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance), actual, expected)


# ------------------------------------------------------------------------------------------------ Backward steps by hand

class DerivedElman(ops.Elman):
    by_hand = False


class DerivedLSTM(ops.LSTM):
    by_hand = False


class DerivedGRU(ops.GRU):
    by_hand = False


@pytest.mark.parametrize('cell, derived', [
    (ops.Elman(), DerivedElman()), (ops.LSTM(), DerivedLSTM()), (ops.GRU(), DerivedGRU())], ids=['elman', 'lstm', 'gru'])
def test_a_backward_step_by_hand_equals_the_derived_one(cell, derived):
    assert cell.by_hand and not derived.by_hand

    @functools.partial(jax.jit, static_argnums=0)
    def gradients(cell, *arguments):
        score = lambda *arguments: sum((leaf ** 2).sum() for leaf in jax.tree.leaves(ops.recur(cell, *arguments, LENGTHS)))
        return jax.grad(score, argnums=(0, 1, 2))(*arguments)

    with jax.enable_x64(True):
        assert_close(gradients(cell, *draw(cell)), gradients(derived, *draw(cell)), 1e-12)


# ------------------------------------------------------------------------------------------------------------- Variants

@pytest.mark.parametrize('cell, step', [
    (ops.LSTM(candidate='sigmoid'), functools.partial(reference.lstm, candidate=reference.sigmoid)),
    (ops.GRU(candidate='sigmoid'), functools.partial(reference.gru, candidate=reference.sigmoid)),
    (ops.Elman('identity'), lambda weights, i, state, h: (reference.total(weights, 0, i, h),)),
    (ops.Elman('sigmoid'), lambda weights, i, state, h: (reference.sigmoid(reference.total(weights, 0, i, h)),)),
], ids=['lstm', 'gru', 'identity', 'sigmoid'])
def test_other_activations_equal_the_loop(cell, step):
    weights, inputs, state = draw(cell)
    assert_close(recur(cell, weights, inputs, state, LENGTHS), reference.recur(step, weights, inputs, state, LENGTHS), 1e-10)


def test_a_layer_without_bias_is_one_with_a_bias_of_zero():
    cell = ops.GRU()
    weights, inputs, state = draw(cell)
    without = {name: array for name, array in weights.items() if name != 'bias'}
    with_zero = {**weights, 'bias': np.zeros_like(weights['bias'])}
    assert_close(recur(cell, without, inputs, state), recur(cell, with_zero, inputs, state), 1e-12)


@pytest.mark.parametrize('make, sentence', [
    (lambda: ops.make_cell('lsmt'), "cell='lsmt': no such cell; did you mean 'lstm'?"),
    (lambda: ops.make_cell(None), 'cell=None: no such cell; choose one of: coupled_lstm, elman, gru'),
    (lambda: ops.Elman('tahn'), "activation='tahn': did you mean 'tanh'?"),
    (lambda: ops.LSTM(candidate='softmax'), "candidate='softmax': choose one of: identity, relu, sigmoid, tanh"),
    (lambda: ops.GRU(candidate='sigmoide'), "candidate='sigmoide': did you mean 'sigmoid'?"),
])
def test_an_unknown_cell_or_activation_is_told_what_there_is(make, sentence):
    with pytest.raises(FieldError) as caught:
        make()
    assert str(caught.value).startswith(sentence)


# ---------------------------------------------------------------------------------------------------------------- Gates

def gates_by_hand(name, weights, i, h, c):
    s, z = reference.sigmoid, lambda gate: reference.total(weights, gate, i, h)
    linear = lambda gate: i @ weights['input_kernel'][:, gate] + weights['bias'][gate]
    if name == 'elman':
        return np.tanh(z(0)),
    if name == 'lstm':
        return s(z(0)), s(z(1)), np.tanh(z(2)), s(z(3))
    if name == 'coupled_lstm':
        return s(z(0)), np.tanh(z(1)), s(z(2))
    if name == 'peephole_lstm':
        p_i, p_f, p_o = weights['peephole']
        new = s(z(1) + p_f * c) * c + s(z(0) + p_i * c) * np.tanh(z(2))
        return s(z(0) + p_i * c), s(z(1) + p_f * c), np.tanh(z(2)), s(z(3) + p_o * new)
    if name == 'gru':
        from_state = h @ weights['recurrent_kernel'][:, 2] + weights['candidate_bias']
        return s(z(0)), s(z(1)), np.tanh(linear(2) + s(z(0)) * from_state)
    if name == 'gru_before':
        return s(z(0)), s(z(1)), np.tanh(linear(2) + (s(z(0)) * h) @ weights['candidate_kernel'])
    if name == 'min_gru':
        return s(linear(0)), linear(1)
    if name == 'min_lstm':
        return s(linear(0)), s(linear(1)), linear(2)


@pytest.mark.parametrize('name', ['elman', 'lstm', 'coupled_lstm', 'peephole_lstm', 'gru', 'gru_before', 'min_gru',
                                  'min_lstm'])
def test_gates_are_the_activated_sums_in_the_order_of_their_names(name):
    cell = ops.CELLS[name]
    weights, inputs, state = draw(cell, 1)
    with jax.enable_x64(True):
        found = ops.gates(cell, *jax.tree.map(jnp.asarray, (weights, inputs[:, 0], state)))
    assert found.shape == (B, len(cell.gate_names), N)
    for b in range(B):
        expected = gates_by_hand(name, weights, inputs[b, 0], state[0][b], state[-1][b])
        np.testing.assert_allclose(found[b], np.stack(expected), atol=1e-12)


# ---------------------------------------------------------------------------------------------------------- Eigenvalues

def magnitudes(weights):
    kernel = np.float64(ops.Orthogonal().kernel(weights))
    assert kernel.shape == (*weights['skew'].shape[:1], 1, *weights['skew'].shape[1:])
    return np.abs(np.linalg.eigvals(kernel[:, 0]))


@pytest.mark.parametrize('scale', [0.01, 1, 10, 100, 1000])
@pytest.mark.parametrize('N', [1, 8, 33])
def test_every_eigenvalue_of_an_orthogonal_cell_has_magnitude_one_whatever_its_parameters(N, scale):
    skew = jnp.asarray(scale * np.random.default_rng(N).standard_normal((N, N)), jnp.float32)
    np.testing.assert_allclose(magnitudes(dict(skew=skew, input_kernel=jnp.zeros((D, 1, N)))), 1, atol=1e-5)


def test_an_orthogonal_cell_stays_orthogonal_while_it_learns():
    cell = ops.Orthogonal()
    weights, inputs, state = jax.tree.map(jnp.float32, draw(cell))
    score = lambda weights: (ops.recur(cell, weights, inputs, state)[0] ** 2).sum()
    gradient, start = jax.jit(jax.grad(score)), np.asarray(cell.kernel(weights))
    for _ in range(5):
        weights = jax.tree.map(lambda weight, d: weight - 0.3 * d, weights, gradient(weights))
    assert np.abs(start - cell.kernel(weights)).max() > 0.1
    np.testing.assert_allclose(magnitudes(weights), 1, atol=1e-5)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(nu=st.floats(-10, 10), theta=st.floats(-10, 10))
def test_every_eigenvalue_of_an_lru_is_inside_the_unit_circle(nu, theta):
    weights = {name: jnp.full((1,), value, jnp.float32) for name, value in (('nu', nu), ('theta', theta))}
    assert abs(ops.LRU().eigenvalues(weights)[0]) < 1


def test_a_cell_is_its_fields():
    assert ops.LSTM() == ops.LSTM() and hash(ops.LSTM()) == hash(ops.LSTM())
    assert len({*ops.CELLS.values(), ops.LSTM(candidate='sigmoid')}) == len(ops.CELLS) + 1
    assert dataclasses.replace(ops.ProjectedLSTM(), width=5).output_width(N) == 5
