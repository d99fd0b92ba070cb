"""Recurrent layers are found in any model, and what is found runs as the layer does."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from seqjax.analysis.recurrent import gradients
from seqjax.analysis.recurrent.layers import recurrent_layers
from seqjax.analysis.recurrent.loss_gradients import end_gradients

B, T, D, N = 3, 5, 2, 4
LENGTHS = np.array([5, 3, 4], np.int32)
INPUTS = jax.random.normal(jax.random.key(0), (B, T, D))


class Outer(linen.Module):
    """A model with a recurrent stack somewhere inside."""

    stack: nn.Recurrent

    @linen.compact
    def __call__(self, inputs, lengths=None, **options):
        return self.stack(linen.Dense(D)(inputs), lengths, **options)


def found(model, *args, **options):
    variables = jax.jit(functools.partial(model.init, **options))(jax.random.key(1), *args)
    run = jax.jit(lambda variables, *args: (recurrent_layers(model.apply, variables, *args, **options),
                                            model.apply(variables, *args, **options)))
    return run(variables, *args)


def test_deep_and_bidirectional_layers_are_found_by_their_paths():
    calls, _ = found(Outer(nn.GRU(N, num_layers=2, bidirectional=True)), INPUTS, LENGTHS)
    assert {path: call.reverse for path, call in calls.items()} == {
        'stack/layer_0': False, 'stack/layer_0_reverse': True, 'stack/layer_1': False, 'stack/layer_1_reverse': True}
    assert calls['stack/layer_1'].inputs.shape == (B, T, 2 * N)
    assert set(calls['stack/layer_0'].weights) == {'input_kernel', 'recurrent_kernel', 'bias', 'candidate_bias'}


OPTIONS = {'plain': {}, 'bidirectional': dict(bidirectional=True), 'zoneout': dict(zoneout=0.3), 'no bias': dict(bias=False),
           'learned state': dict(learned_state=True), 'bfloat16': dict(dtype=jnp.bfloat16), 'lru': dict(cell='lru')}


@pytest.mark.parametrize('options', OPTIONS.values(), ids=OPTIONS)
def test_the_trajectory_of_what_was_found_ends_where_the_layer_does(options):
    calls, (_, final) = found(nn.LSTM(N, **options), INPUTS, LENGTHS)
    ends = final[0] if options.get('bidirectional') else final[:1]
    for (path, call), end in zip(sorted(calls.items()), ends, strict=True):
        states = jax.jit(gradients.trajectory)(call)
        tolerance = 0.03 if options.get('dtype') else 1e-5
        np.testing.assert_allclose(states[:, -1], gradients.as_reals(end), atol=tolerance)
        assert (call.weights['input_kernel'].dtype, states.dtype) == (jnp.float32, jnp.float32)


@pytest.mark.parametrize('reverse', [False, True])
def test_of_a_row_with_several_sequences_the_one_read_last_is_looked_at(reverse):
    segments = jnp.array([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1], [2, 2, 2, 2, 2]])
    layer = nn.RecurrentLayer(N, ops.CELLS['gru'], reverse)
    calls, (_, final) = found(layer, INPUTS, None, segments=segments)
    call, = calls.values()
    assert call.steps.tolist() == ([2, 3, 5] if reverse else [3, 2, 5])
    np.testing.assert_allclose(jax.jit(gradients.trajectory)(call)[:, -1], final[0], atol=1e-6)


def test_a_layer_that_is_called_twice_is_found_twice():
    class Twice(linen.Module):
        @linen.compact
        def __call__(self, inputs):
            stack = nn.RNN(D, name='rnn')
            return stack(stack(inputs)[0])

    calls, _ = found(Twice(), INPUTS)
    assert list(calls) == ['rnn/layer_0', 'rnn/layer_0#2']


def test_a_model_without_recurrent_layers_has_none():
    assert found(linen.Dense(2), INPUTS)[0] == {}


@pytest.mark.parametrize('options', [dict(cell='gru', bidirectional=True), dict(cell='lstm'), dict(cell='lru')],
                         ids=['bidirectional', 'lstm', 'lru'])
def test_the_gradient_at_the_end_is_followed_to_the_first_state(options):
    """For a loss of the last outputs and the final state alone, autodiff with respect to the initial state must agree."""
    model = nn.Recurrent(N, **options)
    variables = jax.jit(model.init)(jax.random.key(1), INPUTS)

    def loss(state):
        outputs, final = model.apply(variables, INPUTS, LENGTHS, initial_state=state)
        rows = jnp.arange(B)
        forward, backward = jnp.split(outputs, 2, axis=-1) if model.bidirectional else (outputs, jnp.zeros((B, 1, 1)))
        ends = forward[rows, LENGTHS - 1].sum(), (backward[:, 0] ** 2).sum()
        return sum(ends) + sum((jnp.abs(part) ** 2).sum() for part in jax.tree.leaves(final))

    @jax.jit
    def both(state):
        calls, ends = end_gradients(loss, state)
        return jax.grad(loss)(state), {path: gradients.followed_gradient(call, ends[path]) for path, call in calls.items()}

    start = jax.tree.map(lambda x: x + 0.1, model.zero_state(B))
    expected, logs = both(start)
    layers = expected[0] if model.bidirectional else expected
    for path, state in zip(sorted(logs), layers, strict=True):
        norms = np.linalg.norm(gradients.as_reals(state), axis=-1)
        np.testing.assert_allclose(np.exp(logs[path][np.arange(B), LENGTHS]), norms, rtol=1e-4)
