"""What a state sees: the past, the future or both."""

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.analysis.recurrent.receptive_field import plot_receptive_fields, receptive_field, receptive_fields

T, D, N = 5, 2, 3
INPUTS = jax.random.normal(jax.random.key(0), (1, T, D))


def fields_of(model, **options):
    variables = jax.jit(model.init)(jax.random.key(1), INPUTS)
    fields = jax.jit(lambda variables: receptive_fields(model.apply, variables, INPUTS, **options))(variables)
    return {name: np.asarray(field) for name, field in fields.items()}


CAUSAL = np.tril(np.ones((T, T), int))


@pytest.fixture(scope='module')
def bidirectional():
    return fields_of(nn.GRU(N, num_layers=2, bidirectional=True, name='rnn'))


@pytest.mark.parametrize('name, sees', [
    ('layer_0', CAUSAL), ('layer_0_reverse', CAUSAL.T), ('layer_1', CAUSAL * 0 + 1), ('layer_1_reverse', CAUSAL * 0 + 1),
    (' (output)', CAUSAL * 0 + 1)])
def test_a_layer_sees_the_past_its_reverse_the_future_and_the_two_together_everything(bidirectional, name, sees):
    np.testing.assert_array_equal(bidirectional[name] > 0, sees == 1)


def test_a_stack_in_one_direction_never_sees_the_future():
    fields = fields_of(nn.LSTM(N, num_layers=2))
    assert set(fields) == {'layer_0', 'layer_1'}
    for field in fields.values():
        np.testing.assert_array_equal(field > 0, CAUSAL == 1)


def test_norms_are_those_of_the_jacobian():
    model = nn.RNN(N)
    variables = jax.jit(model.init)(jax.random.key(1), INPUTS)
    jacobian = jax.jit(jax.jacrev(lambda inputs: model.apply(variables, inputs[None])[0][0]))(INPUTS[0])  # [T, N, T, D]
    expected = np.sqrt((np.asarray(jacobian) ** 2).sum(axis=(1, 3)))
    np.testing.assert_allclose(fields_of(model)['layer_0'], expected, rtol=1e-5)
    np.testing.assert_allclose(fields_of(model, at=[0, 3])['layer_0'], expected[[0, 3]], rtol=1e-5)


def test_bfloat16_is_close():
    fields = fields_of(nn.RNN(N, dtype=jnp.bfloat16))
    np.testing.assert_allclose(fields['layer_0'], fields_of(nn.RNN(N))['layer_0'], rtol=0.05, atol=1e-3)


def test_few_probes_estimate_the_norm_of_many_outputs():
    kernel = jax.random.normal(jax.random.key(2), (4, 200))
    inputs = jnp.ones((2, 4))
    field = receptive_field(lambda x: x @ kernel, inputs, probes=32)
    np.testing.assert_allclose(np.diagonal(field), np.linalg.norm(kernel), rtol=0.2)
    assert field[0, 1] == field[1, 0] == 0


def test_inputs_of_the_stack_are_what_the_model_feeds_it():
    class Doubled(linen.Module):
        @linen.compact
        def __call__(self, inputs):
            return nn.RNN(N, name='rnn')(2 * inputs)

    assert set(fields_of(Doubled())) == {'rnn/layer_0'}


def test_the_picture_is_written(tmp_path, bidirectional):
    plot_receptive_fields(bidirectional, tmp_path / 'field.png')
    assert (tmp_path / 'field.png').read_bytes().startswith(b'\x89PNG')
