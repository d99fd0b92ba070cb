"""cuDNN's LSTM, where there is an Nvidia GPU and the case is one that cuDNN knows; everywhere else the engine runs.

    i, f, g, o = W i + b + U h + b'        the same equations and the same order of gates; b' is zero here
"""

import jax
import jax.numpy as jnp

from seqjax.ops.attention.accelerator import on_nvidia
from seqjax.ops.recurrence.cells import LSTM


def serves(cell, weights, inputs, reverse, new_segment, hold, state_mask):
    """Whether cuDNN computes exactly this: a plain float32 LSTM, forward, on a GPU."""
    return (type(cell) is LSTM and cell.candidate == 'tanh' and not reverse and new_segment is None and hold is None
            and state_mask is None and inputs.dtype == weights['recurrent_kernel'].dtype == jnp.float32 and available())


def available():
    """Whether jax runs on one Nvidia GPU and offers cuDNN's LSTM. Over several the compiler cuts the engine, but not cuDNN."""
    if jax.device_count() > 1 or not on_nvidia():
        return False
    try:
        from jax.experimental import rnn  # noqa: F401
    except ImportError:
        return False
    return True


def lstm(weights, inputs, state, valid):
    """outputs [B, T, N] and the final state of one layer. valid: [B, T] or None."""
    from jax.experimental import rnn  # here, because only a GPU has a use for it

    (B, T, D), N = inputs.shape, weights['recurrent_kernel'].shape[0]
    lengths = jnp.full(B, T, jnp.int32) if valid is None else valid.sum(1, dtype=jnp.int32)
    # cuDNN wants at least one step of every row; an empty row is put back below.
    h, c = (part[None] for part in state)
    outputs, h, c = rnn.lstm(inputs, h, c, pack(weights), jnp.maximum(lengths, 1), D, N, 1, 0.0, False)
    ran = (lengths > 0)[:, None]
    return outputs, (jnp.where(ran, h[0], state[0]), jnp.where(ran, c[0], state[1]))


def pack(weights):
    """All weights in the one row that cuDNN reads: W, U, b and b', each gate by gate."""
    by_gate = lambda kernel: jnp.moveaxis(kernel, 0, 2).reshape(-1)  # [G, N, inputs]
    bias = weights.get('bias', jnp.zeros(weights['input_kernel'].shape[1:], weights['input_kernel'].dtype)).reshape(-1)
    kernels = by_gate(weights['input_kernel']), by_gate(weights['recurrent_kernel'])
    return jnp.concatenate((*kernels, bias, jnp.zeros_like(bias)))
