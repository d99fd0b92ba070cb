"""The LSTM stack against a numpy loop and torch.nn.LSTM."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from tests.reference import recurrence as reference
from tests.reference.parameters import random_parameters

B, T, D, N = 3, 5, 4, 6
RAGGED = np.array([5, 2, 3])


@functools.partial(jax.jit, static_argnums=0)
def run(model, params, *inputs):
    return model.apply({'params': params}, *inputs)


def draw(num_layers, **fields):
    rng = np.random.default_rng(num_layers)
    inputs = rng.standard_normal((B, T, D)).astype(np.float32)
    state = tuple(tuple(rng.standard_normal((B, N)).astype(np.float32) for _ in 'hc') for _ in range(num_layers))
    model = nn.LSTM(N, num_layers, **fields)
    return model, random_parameters(model, inputs), inputs, state


def test_a_stack_equals_numpy_loops_one_after_the_other():
    model, params, inputs, state = draw(2)
    outputs, final = run(model, params, inputs, RAGGED, state)
    x = inputs
    for layer in range(2):
        x, expected_final = reference.lstm_layer(params[f'layer_{layer}'], x, RAGGED, state[layer])
        for actual, expected in zip(final[layer], expected_final):
            np.testing.assert_allclose(actual, expected, atol=1e-5)
    np.testing.assert_allclose(outputs, x, atol=1e-5)


@pytest.mark.parametrize('num_layers, lengths', [(1, RAGGED), (2, None), (3, RAGGED)])
def test_outputs_final_states_and_gradients_equal_torch(num_layers, lengths):
    torch = pytest.importorskip('torch')
    model, params, inputs, state = draw(num_layers)
    theirs = torch.nn.LSTM(D, N, num_layers, batch_first=True)
    for layer in range(num_layers):
        of_layer = params[f'layer_{layer}']
        for name, array in (('weight_ih', of_layer['input_kernel'].transpose(1, 2, 0).reshape(4 * N, -1)),
                            ('weight_hh', of_layer['recurrent_kernel'].transpose(1, 2, 0).reshape(4 * N, N)),
                            ('bias_ih', of_layer['bias'].reshape(4 * N)), ('bias_hh', np.zeros(4 * N, np.float32))):
            getattr(theirs, f'{name}_l{layer}').data = torch.tensor(array)
    x = torch.tensor(inputs, requires_grad=True)
    h, c = (torch.tensor(np.stack(part), requires_grad=True) for part in zip(*state))
    if lengths is None:
        expected, (h_final, c_final) = theirs(x, (h, c))
    else:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed, (h_final, c_final) = theirs(packed, (h, c))
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    rng = np.random.default_rng(7)
    w_outputs, w_h, w_c = (rng.standard_normal(part.shape).astype(np.float32) for part in (expected, h, c))
    sum((part * torch.tensor(w)).sum() for part, w in ((expected, w_outputs), (h_final, w_h), (c_final, w_c))).backward()

    def score(params, inputs, state):
        outputs, final = model.apply({'params': params}, inputs, lengths, state)
        h, c = (jnp.stack(part) for part in zip(*final))
        return (outputs * w_outputs).sum() + (h * w_h).sum() + (c * w_c).sum(), (outputs, h, c)

    differentiate = jax.jit(jax.grad(score, argnums=(0, 1, 2), has_aux=True))
    (d_params, d_inputs, d_state), results = jax.device_get(differentiate(params, inputs, state))
    for actual, tensor in zip(results, (expected, h_final, c_final)):
        np.testing.assert_allclose(actual, tensor.detach(), atol=1e-5)
    np.testing.assert_allclose(d_inputs, x.grad, atol=1e-5)
    for actual, tensor in zip(zip(*d_state), (h, c)):
        np.testing.assert_allclose(np.stack(actual), tensor.grad, atol=1e-5)
    for layer in range(num_layers):
        d_layer = d_params[f'layer_{layer}']
        for name, array in (('weight_ih', d_layer['input_kernel'].transpose(1, 2, 0)),
                            ('weight_hh', d_layer['recurrent_kernel'].transpose(1, 2, 0)), ('bias_ih', d_layer['bias'])):
            grad = getattr(theirs, f'{name}_l{layer}').grad
            np.testing.assert_allclose(array.reshape(grad.shape), grad, rtol=1e-5, atol=1e-5)


def test_what_lies_past_a_rows_end_changes_nothing_in_any_layer():
    model, params, inputs, state = draw(2)
    soiled = inputs.copy()
    soiled[np.arange(T) >= RAGGED[:, None]] = 1e6
    jax.tree.map(np.testing.assert_array_equal, run(model, params, soiled, RAGGED, state),
                 run(model, params, inputs, RAGGED, state))


def test_pieces_with_the_state_carried_over_equal_the_whole():
    model, params, inputs, state = draw(2)
    whole, final = run(model, params, inputs, RAGGED, state)
    outputs = np.zeros((B, T, N), np.float32)
    for t in range(T):
        step, state = run(model, params, inputs[:, t:t + 1], (t < RAGGED).astype(np.int32), state)
        outputs[:, t:t + 1] = step
    np.testing.assert_allclose(outputs, whole, atol=1e-6)
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, atol=1e-6), state, final)


def test_no_initial_state_means_zeros():
    model, params, inputs, state = draw(2)
    assert jax.tree.map(np.shape, model.zero_state(B)) == jax.tree.map(np.shape, state)
    given = run(model, params, inputs, RAGGED, jax.tree.map(np.zeros_like, state))
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, atol=1e-6), run(model, params, inputs, RAGGED), given)


@pytest.mark.parametrize('num_layers', [1, 2])
def test_dropout_falls_between_layers_in_training_only(num_layers):
    model, params, inputs, _ = draw(num_layers, dropout=0.5)
    train = jax.jit(lambda key: model.apply({'params': params}, inputs, train=True, rngs={'dropout': key})[0])
    first, again, other = (np.asarray(train(jax.random.key(seed))) for seed in (0, 0, 1))
    expected, _ = run(model.copy(dropout=0.0), params, inputs, None)
    np.testing.assert_allclose(run(model, params, inputs, None)[0], expected, atol=1e-6)
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) == (num_layers > 1)
    assert (np.abs(first - np.asarray(expected)).max() > 1e-6) == (num_layers > 1)


def test_bfloat16_comes_close_with_float32_parameters_and_state():
    low, params, inputs, state = draw(2, dtype=jnp.bfloat16)
    outputs, final = run(low, params, inputs, RAGGED, state)
    expected, expected_final = run(draw(2)[0], params, inputs, RAGGED, state)
    assert outputs.dtype == jnp.bfloat16
    assert {leaf.dtype for leaf in jax.tree.leaves((params, final))} == {np.dtype('float32')}
    np.testing.assert_allclose(np.float32(outputs), expected, atol=2e-2)
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, atol=3e-2), final, expected_final)


def test_parameters_start_as_documented():
    params = linen.unbox(jax.jit(nn.LSTM(N).init)(jax.random.key(0), np.zeros((B, T, D), np.float32)))
    params = jax.device_get(params['params']['layer_0'])
    np.testing.assert_array_equal(params['bias'], np.repeat([[0], [1], [0], [0]], N, axis=1))
    gates = np.moveaxis(params['recurrent_kernel'], 1, 0)
    for i, gate in enumerate(gates):
        np.testing.assert_allclose(gate @ gate.T, np.eye(N), atol=1e-5)
        assert all(np.abs(gate - other).max() > 0.1 for other in gates[:i])
    limit = (6 / (D + N)) ** 0.5
    assert 0.8 * limit < np.abs(params['input_kernel']).max() <= limit


def test_an_input_without_a_batch_is_refused_with_its_shape():
    with pytest.raises(ValueError, match=r'^LSTM takes inputs \[B, T, D\], not an array of shape \(5, 4\)'):
        nn.LSTM(N).init(jax.random.key(0), np.zeros((T, D), np.float32))


def test_an_initial_state_with_another_number_of_layers_is_refused():
    layer = nn.LSTM(4, num_layers=2)
    with pytest.raises(ValueError, match='initial_state has 1 layers, and num_layers=2'):
        layer.init(jax.random.key(0), jnp.zeros((1, 3, 4)), initial_state=nn.LSTM(4).zero_state(1))
