"""The LSTM step on the blackboard against autodiff and against the engine."""

import jax
import jax.numpy as jnp
import numpy as np

from seqjax import ops

B, D, N = 3, 2, 4


def draw():
    """x, h, c, Wx, Wh, b in float64."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in ((B, D), (B, N), (B, N), (D, 4 * N), (N, 4 * N), (4 * N,))]


def assert_close(actual, expected):
    jax.tree.map(lambda a, e: np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10), list(actual), list(expected))


def test_the_backward_step_equals_autodiff():
    with jax.enable_x64(True):
        arguments, (d_h, d_c) = draw(), np.random.default_rng(1).standard_normal((2, B, N))
        (_, _, cache), pull = jax.vjp(ops.lstm_step_forward, *arguments)
        expected = pull((d_h, d_c, jax.tree.map(jnp.zeros_like, cache)))
        assert_close(ops.lstm_step_backward(d_h, d_c, cache), expected)


def test_the_forward_step_is_a_step_of_the_engine():
    order = [0, 1, 3, 2]  # i, f, o, g here; i, f, g, o there
    by_gate = lambda kernel: kernel.reshape(*kernel.shape[:-1], 4, N)[..., order, :]
    with jax.enable_x64(True):
        x, h, c, Wx, Wh, b = map(jnp.asarray, draw())
        weights = dict(input_kernel=by_gate(Wx), recurrent_kernel=by_gate(Wh), bias=by_gate(b))
        expected = ops.lstm_step_forward(x, h, c, Wx, Wh, b)[:2]
        assert_close(ops.advance(ops.LSTM(), weights, x, (h, c)), expected)
        outputs, final = ops.recur(ops.LSTM(), weights, x[:, None], (h, c))
        assert_close((outputs[:, 0], *final), (expected[0], *expected))
