"""Recurrent layers: the parameters of `ops.recurrence`, stacked."""

from flax import linen as nn
import jax
import jax.numpy as jnp

from seqjax import ops
from seqjax.nn.projection import partitioned


class LSTMLayer(nn.Module):
    """One LSTM layer. Equations: `ops.lstm_cell`. inputs [B, T, D] -> outputs [B, T, N], (h, c).

    The forget gate's bias starts at 1 (Jozefowicz et al. 2015), the recurrent kernel orthogonal gate by gate.
    """

    features: int
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, inputs, lengths, state):
        D, N = inputs.shape[-1], self.features
        kernel = self.param('input_kernel', partitioned(_uniform_gates, ('embed', None, 'hidden')), (D, 4, N))
        recurrent = self.param('recurrent_kernel', partitioned(_orthogonal_gates, ('embed', None, 'hidden')), (N, 4, N))
        bias = self.param('bias', partitioned(_open_forget_gate, (None, 'hidden')), (4, N))
        x = jnp.einsum('btd,dgn->tbgn', inputs.astype(self.dtype), kernel.astype(self.dtype),
                       preferred_element_type=jnp.float32) + bias
        outputs, state = ops.recur(ops.lstm_cell, recurrent.astype(self.dtype), x, state, lengths)
        return outputs.astype(self.dtype), state


class LSTM(nn.Module):
    """A stack of LSTM layers with dropout between them.

        outputs, final_state = LSTM(features=256, num_layers=2).apply(variables, inputs, lengths)

    inputs: [B, T, D]. lengths: [B] or None; outputs past a row's length are zero and its final state is the one at
    its own end. The state is a tuple with one (h, c) a layer, each [B, N], always float32.
    """

    features: int
    num_layers: int = 1
    dropout: float = 0.0
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, inputs, lengths=None, initial_state=None, *, train=False):
        if inputs.ndim != 3:
            raise ValueError(f'LSTM takes inputs [B, T, D], not an array of shape {inputs.shape}')
        if initial_state is None:
            initial_state = self.zero_state(inputs.shape[0])
        if len(initial_state) != self.num_layers:
            raise ValueError(f'initial_state has {len(initial_state)} layers, and num_layers={self.num_layers}')
        x, final_state = inputs, []
        for layer, state in enumerate(initial_state):
            if layer:
                x = nn.Dropout(self.dropout, deterministic=not train)(x)
            x, state = LSTMLayer(self.features, self.dtype, name=f'layer_{layer}')(x, lengths, state)
            final_state.append(state)
        return x, tuple(final_state)

    @nn.nowrap
    def zero_state(self, batch_size):
        zeros = jnp.zeros((batch_size, self.features), jnp.float32)
        return ((zeros, zeros),) * self.num_layers


def _uniform_gates(key, shape, dtype=jnp.float32):
    """Glorot's uniform for each gate's own [D, N] matrix."""
    D, _, N = shape
    limit = jnp.sqrt(6 / (D + N)).astype(dtype)
    return jax.random.uniform(key, shape, dtype, -limit, limit)


def _orthogonal_gates(key, shape, dtype=jnp.float32):
    """An orthogonal [N, N] matrix for each gate."""
    N, gates, _ = shape
    keys = jax.random.split(key, gates)
    return jnp.stack([nn.initializers.orthogonal()(k, (N, N), dtype) for k in keys], axis=1)


def _open_forget_gate(key, shape, dtype=jnp.float32):
    """Zeros, and ones for the forget gate: gates are ordered i, f, g, o."""
    del key
    return jnp.zeros(shape, dtype).at[1].set(1)
