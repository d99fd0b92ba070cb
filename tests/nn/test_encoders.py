"""Encoders: a table of them x what holds for all, and what each of them is compared with."""

import functools

from flax import linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn, ops
from seqjax.errors import FieldError
from tests.reference import recurrence as reference_recurrence
from tests.reference import transformer as reference_transformer
from tests.reference.parameters import random_parameters

B, T, D, N, H = 4, 6, 3, 8, 2
LENGTHS = np.array([6, 3, 0, 1], np.int32)
X = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)
ENCODERS = {
    'lstm': lambda dtype: nn.RecurrentEncoder(nn.LSTM(N, dtype=dtype)),
    'rnn, deep, both directions': lambda dtype: nn.RecurrentEncoder(nn.RNN(N, 2, bidirectional=True, dtype=dtype)),
    'lru, learned state': lambda dtype: nn.RecurrentEncoder(nn.Recurrent(N, cell='lru', learned_state=True, dtype=dtype)),
    'conv': lambda dtype: nn.ConvolutionalEncoder(N, depth=2, kernel_size=3, dilated=True, dtype=dtype),
    'conv, plain, causal': lambda dtype: nn.ConvolutionalEncoder(N, norm=False, activation='relu', causal=True, dtype=dtype),
    'attention': lambda dtype: nn.AttentionEncoder(N, heads=H, dtype=dtype),
    'attention, causal': lambda dtype: nn.AttentionEncoder(N, heads=H, causal=True, dtype=dtype),
}
MIX = np.random.default_rng(1).standard_normal((3, 2 * N)).astype(np.float32)


@functools.cache
def make(name, dtype=jnp.float32):
    encoder = ENCODERS[name](dtype)
    return encoder, random_parameters(encoder, X, scale=0.4)


@functools.partial(jax.jit, static_argnums=0)
def run(encoder, params, *inputs):
    return encoder.apply({'params': params}, *inputs)


@functools.partial(jax.jit, static_argnums=0)
def run_and_gradients(encoder, params, x, lengths):
    """(outputs, last) and the gradients of a random mix of both."""
    def score(params, x):
        outputs, last = encoder.apply({'params': params}, x, lengths)
        mix = MIX[:, :last.shape[-1]]
        return (outputs * mix[0]).sum() + (outputs ** 2 * mix[1]).sum() + (last * mix[2]).sum(), (outputs, last)

    return jax.grad(score, argnums=(0, 1), has_aux=True)(params, x)


# ------------------------------------------------------------------------------------------------ what holds for all

@pytest.mark.parametrize('name', ENCODERS)
def test_padding_changes_no_output_and_no_gradient_and_a_row_of_no_steps_gives_zeros(name):
    encoder, params = make(name)
    garbage = np.random.default_rng(2).standard_normal((B, T + 50, D)).astype(np.float32)
    valid = np.arange(T + 50) < LENGTHS[:, None]
    garbage[:, :T][valid[:, :T]] = X[valid[:, :T]]
    garbage[0, -1] = np.inf
    (d_params, d_x), (outputs, last) = jax.device_get(run_and_gradients(encoder, params, X, LENGTHS))
    (d_params2, d_x2), (outputs2, last2) = jax.device_get(run_and_gradients(encoder, params, garbage, LENGTHS))
    np.testing.assert_allclose(outputs, outputs2[:, :T], atol=1e-6)
    np.testing.assert_allclose(last, last2, atol=1e-6)
    np.testing.assert_allclose(d_x, d_x2[:, :T], atol=1e-6 * np.linalg.norm(d_x))
    size = np.sqrt(sum((leaf ** 2).sum() for leaf in jax.tree.leaves(d_params)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6 * size, rtol=0), d_params, d_params2)
    assert not outputs2[~valid].any() and not d_x2[~valid].any() and outputs[valid[:, :T]].all()
    assert not last[2].any() and last[[0, 1, 3]].all()


@pytest.mark.parametrize('name', ENCODERS)
def test_a_row_alone_equals_the_row_in_a_batch_and_no_lengths_are_full_lengths(name):
    encoder, params = make(name)
    outputs, last = run(encoder, params, X, LENGTHS)
    alone, end = run(encoder, params, X[1:2, :3])
    np.testing.assert_allclose(outputs[1:2, :3], alone, atol=1e-5)
    np.testing.assert_allclose(last[1:2], end, atol=1e-5)


@pytest.mark.parametrize('name', ENCODERS)
def test_bfloat16_comes_close_with_float32_parameters_and_named_axes(name):
    encoder, params = make(name, jnp.bfloat16)
    made = jax.eval_shape(encoder.init, jax.random.key(0), X)['params']
    boxes = jax.tree.leaves(made, is_leaf=lambda leaf: isinstance(leaf, linen.LogicallyPartitioned))
    assert all(isinstance(box, linen.LogicallyPartitioned) and len(box.names) == box.value.ndim for box in boxes)
    assert {leaf.dtype for leaf in jax.tree.leaves(made)} == {np.dtype('float32')}
    outputs, last = run(encoder, params, X, LENGTHS)
    exact, _ = run(make(name)[0], params, X, LENGTHS)
    assert outputs.dtype == last.dtype == jnp.bfloat16
    assert np.linalg.norm(np.float32(outputs) - exact) < 3e-2 * np.linalg.norm(exact)


# ------------------------------------------------------------------------------------------------ recurrent

def test_the_last_of_two_directions_is_where_each_has_read_the_whole_row():
    encoder, params = make('rnn, deep, both directions')
    x = X
    for layer in range(2):
        zero, weights = (np.zeros((B, N)),), [params['stack'][f'layer_{layer}' + end] for end in ('', '_reverse')]
        halves = [reference_recurrence.recur('elman', weights[reverse], x, zero, LENGTHS, reverse=reverse)
                  for reverse in (False, True)]
        x = np.concatenate([outputs for outputs, _ in halves], axis=-1)
    outputs, last = run(encoder, params, X, LENGTHS)
    np.testing.assert_allclose(outputs, x, atol=1e-5)
    np.testing.assert_allclose(last, np.concatenate([state[0] for _, state in halves], axis=-1), atol=1e-5)


def test_merged_directions_have_no_end_and_are_refused():
    with pytest.raises(FieldError) as caught:
        nn.RecurrentEncoder(nn.GRU(N, bidirectional=True, merge='sum'))
    assert str(caught.value) == "merge='sum': the two directions end at different steps; write 'concat'"


# ------------------------------------------------------------------------------------------------ attention

def numpy_encoder(params, x, causal):
    """One row [n, D] through one block."""
    n, stack = len(x), params['stack']
    x = reference_transformer.project(params['input'], x) + np.asarray(ops.sinusoidal_positions(np.arange(n), N))
    mask = reference_transformer.causal(1, n) if causal else np.ones((1, n, n), bool)
    x = reference_transformer.block(stack['block_0'], x[None], mask)
    return reference_transformer.layer_norm(stack['norm'], x)[0]


@pytest.mark.parametrize('causal', [True, False])
def test_the_attention_encoder_equals_numpy_row_by_row(causal):
    encoder = nn.AttentionEncoder(N, heads=H, causal=causal)
    params = random_parameters(encoder, X, scale=0.4)
    outputs, last = run(encoder, params, X, LENGTHS)
    for b, n in enumerate(LENGTHS):
        if n:
            expected = numpy_encoder(params, X[b, :n], causal)
            np.testing.assert_allclose(outputs[b, :n], expected, atol=1e-4)
            np.testing.assert_allclose(last[b], expected[-1], atol=1e-4)


def test_only_positions_tell_the_order_of_the_steps():
    order = np.random.default_rng(3).permutation(T)
    for positions in (False, True):
        encoder = nn.AttentionEncoder(N, heads=H, positions=positions)
        params = random_parameters(encoder, X, scale=0.4)
        (outputs, _), (moved, _) = run(encoder, params, X), run(encoder, params, X[:, order])
        assert np.allclose(outputs[:, order], moved, atol=1e-5) != positions


@pytest.mark.parametrize('causal', [True, False])
def test_a_causal_encoder_sees_the_past_and_the_other_everything(causal):
    encoder = nn.AttentionEncoder(N, heads=H, causal=causal)
    params = random_parameters(encoder, X, scale=0.4)
    jacobian = jax.jit(jax.jacrev(lambda x: encoder.apply({'params': params}, x[None])[0][0] @ MIX[0, :N]))(X[0])
    seen = np.ones((T, T), bool)
    np.testing.assert_array_equal(np.any(np.asarray(jacobian) != 0, axis=2), np.tril(seen) if causal else seen)


@pytest.mark.parametrize('fields, sentence', [
    (dict(width=10, heads=4), 'heads=4: must divide width=10; 1, 2, 5, 10 would'),
    (dict(width=9, heads=3), 'width=9: must be even for attention: positions are pairs of a sine and a cosine'),
    (dict(width=8, depth=0), 'depth=0: must be at least 1'),
])
def test_what_cannot_be_is_refused(fields, sentence):
    with pytest.raises(FieldError) as caught:
        nn.AttentionEncoder(**fields)
    assert str(caught.value) == sentence
