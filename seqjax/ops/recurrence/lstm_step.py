"""One step of an LSTM and its gradient, both written out: the pair to read before the engine.

    a = x Wx + h Wh + b                           [B, 4N], the sums of the gates i, f, o, g in this order
    i, f, o = sigmoid(a_i), sigmoid(a_f), sigmoid(a_o);   g = tanh(a_g)
    c' = f * c + i * g
    h' = o * tanh(c')

Batch first and gates side by side, as on a blackboard; `ops.recur` computes the same with another layout.
"""

import jax
import jax.numpy as jnp


def lstm_step_forward(x, h, c, Wx, Wh, b):
    """x [B, D], h and c [B, N], Wx [D, 4N], Wh [N, 4N], b [4N] -> (h', c', what the backward step needs)."""
    a_i, a_f, a_o, a_g = jnp.split(x @ Wx + h @ Wh + b, 4, axis=1)  # each [B, N]
    i, f, o, g = jax.nn.sigmoid(a_i), jax.nn.sigmoid(a_f), jax.nn.sigmoid(a_o), jnp.tanh(a_g)
    new_c = f * c + i * g
    new_h = o * jnp.tanh(new_c)
    return new_h, new_c, (x, h, c, Wx, Wh, i, f, o, g, new_c)


def lstm_step_backward(d_new_h, d_new_c, cache):
    """The gradients of x, h, c, Wx, Wh and b from those of h' and c', by the chain rule, last equation first."""
    x, h, c, Wx, Wh, i, f, o, g, new_c = cache
    tanh_c = jnp.tanh(new_c)
    d_o = d_new_h * tanh_c                                  # h' = o * tanh(c')
    d_new_c = d_new_c + d_new_h * o * (1 - tanh_c ** 2)
    d_f, d_c, d_i, d_g = d_new_c * c, d_new_c * f, d_new_c * g, d_new_c * i  # c' = f * c + i * g
    d_a = jnp.concatenate([d_i * i * (1 - i), d_f * f * (1 - f), d_o * o * (1 - o), d_g * (1 - g ** 2)], axis=1)  # [B, 4N]
    return d_a @ Wx.T, d_a @ Wh.T, d_c, x.T @ d_a, h.T @ d_a, d_a.sum(axis=0)
