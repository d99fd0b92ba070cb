"""Convolutions against a numpy loop and torch; what a step of the encoder sees, and that padding is not part of it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax import nn
from seqjax.errors import FieldError
from tests.reference.parameters import random_parameters

B, T, D, F = 2, 9, 3, 4
SETTINGS = [  # kernel_size, dilation, causal
    (5, 1, False), (4, 1, False), (3, 3, False), (3, 1, True), (2, 4, True), (1, 1, False)]
X = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)


@functools.partial(jax.jit, static_argnums=0)
def run(layer, params, *inputs):
    return layer.apply({'params': params}, *inputs)


def numpy_convolution(params, x, dilation, causal):
    """One row, one step and one place of the kernel at a time."""
    kernel, (B, T, _) = np.float64(params['kernel']), x.shape
    before = (len(kernel) - 1) * dilation if causal else (len(kernel) - 1) * dilation // 2
    y = np.zeros((B, T, kernel.shape[2]))
    for b in range(B):
        for t in range(T):
            y[b, t] = params['bias']
            for k, weights in enumerate(kernel):
                s = t + k * dilation - before
                if 0 <= s < T:
                    y[b, t] += x[b, s] @ weights
    return y


@pytest.mark.parametrize('kernel_size, dilation, causal', SETTINGS)
def test_a_convolution_equals_a_loop(kernel_size, dilation, causal):
    layer = nn.Convolution(F, kernel_size, dilation, causal)
    params = random_parameters(layer, X)
    np.testing.assert_allclose(run(layer, params, X), numpy_convolution(params, X, dilation, causal), atol=1e-5)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch, about its own speed
@pytest.mark.parametrize('kernel_size, dilation, causal', SETTINGS[:5])
def test_values_and_gradients_equal_torch(kernel_size, dilation, causal):
    torch = pytest.importorskip('torch')
    layer = nn.Convolution(F, kernel_size, dilation, causal)
    params, weights = random_parameters(layer, X), np.random.default_rng(1).standard_normal((B, T, F)).astype(np.float32)
    theirs = torch.nn.Conv1d(D, F, kernel_size, dilation=dilation, padding=0 if causal else 'same')
    theirs.weight.data = torch.tensor(params['kernel'].transpose(2, 1, 0).copy())
    theirs.bias.data = torch.tensor(params['bias'])
    x = torch.tensor(X.transpose(0, 2, 1).copy(), requires_grad=True)
    padded = torch.nn.functional.pad(x, ((kernel_size - 1) * dilation, 0)) if causal else x
    y = theirs(padded)
    (y * torch.tensor(weights.transpose(0, 2, 1).copy())).sum().backward()
    score = lambda params, x: (layer.apply({'params': params}, x) * weights).sum()
    d_params, d_x = jax.jit(jax.grad(score, argnums=(0, 1)))(params, X)
    np.testing.assert_allclose(run(layer, params, X), y.detach().numpy().transpose(0, 2, 1), atol=1e-5)
    np.testing.assert_allclose(d_x, x.grad.numpy().transpose(0, 2, 1), atol=1e-5)
    np.testing.assert_allclose(d_params['kernel'], theirs.weight.grad.numpy().transpose(2, 1, 0), atol=1e-5)
    np.testing.assert_allclose(d_params['bias'], theirs.bias.grad, atol=1e-5)


@pytest.mark.parametrize('options, past, future', [
    (dict(depth=2, kernel_size=3), 2, 2),
    (dict(depth=3, kernel_size=3, dilated=True), 7, 7),
    (dict(depth=3, kernel_size=2, dilated=True, causal=True), 7, 0),
    (dict(depth=2, kernel_size=4, causal=True, norm=False, activation='relu'), 6, 0),
    (dict(depth=1, kernel_size=4, norm=False), 1, 2),
], ids=str)
def test_a_step_sees_exactly_its_receptive_field(options, past, future):
    steps, encoder = 20, nn.ConvolutionalEncoder(8, **options)
    x = np.random.default_rng(2).standard_normal((steps, D)).astype(np.float32)
    params = random_parameters(encoder, x[None])
    mix = np.random.default_rng(3).standard_normal(8).astype(np.float32)
    jacobian = jax.jit(jax.jacrev(lambda x: encoder.apply({'params': params}, x[None])[0][0] @ mix))(x)  # [T, S, D]
    lag = np.arange(steps)[:, None] - np.arange(steps)
    np.testing.assert_array_equal(np.any(np.asarray(jacobian) != 0, axis=2), (lag <= past) & (-lag <= future))


def numpy_encoder(params, x, depth, dilated, norm):
    def normed(params, x):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * params['scale'] + params['bias']

    x = x @ np.float64(params['input']['kernel']) + params['input']['bias']
    for layer in range(depth):
        y = normed(params[f'norm_{layer}'], x) if norm else x
        y = np.maximum(numpy_convolution(params[f'convolution_{layer}'], y, 2 ** layer if dilated else 1, False), 0)
        x = x + y @ params[f'out_{layer}']['kernel'] + params[f'out_{layer}']['bias']
    return normed(params['norm'], x) if norm else x


@pytest.mark.parametrize('norm', [True, False])
def test_the_encoder_equals_numpy_row_by_row(norm):
    encoder = nn.ConvolutionalEncoder(6, depth=2, kernel_size=3, dilated=True, activation='relu', norm=norm)
    params, lengths = random_parameters(encoder, X), np.array([4, 7], np.int32)
    outputs, last = run(encoder, params, X, lengths)
    for b, n in enumerate(lengths):
        expected = numpy_encoder(params, X[b:b + 1, :n], 2, True, norm)[0]
        np.testing.assert_allclose(outputs[b, :n], expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(last[b], expected[-1], rtol=1e-4, atol=1e-4)


def test_the_kernel_is_bfloat16_in_the_product_only():
    layer = nn.Convolution(F, 3, dtype=jnp.bfloat16)
    params = random_parameters(layer, X)
    y = run(layer, params, X)
    assert y.dtype == jnp.bfloat16 and params['kernel'].dtype == np.float32
    np.testing.assert_allclose(np.float32(y), numpy_convolution(params, X, 1, False), atol=5e-2)


@pytest.mark.parametrize('make, sentence', [
    (lambda: nn.Convolution(F, 0), 'kernel_size=0: must be at least 1'),
    (lambda: nn.Convolution(F, 3, 0), 'dilation=0: must be at least 1'),
    (lambda: nn.ConvolutionalEncoder(8, depth=0), 'depth=0: must be at least 1'),
    (lambda: nn.ConvolutionalEncoder(8, activation='swish'), "activation='swish': choose one of: gelu, relu"),
])
def test_what_cannot_be_is_refused(make, sentence):
    with pytest.raises(FieldError) as caught:
        make()
    assert str(caught.value) == sentence
