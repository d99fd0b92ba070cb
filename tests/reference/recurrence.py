"""The LSTM, one row and one step at a time."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(kernel, inputs, state, lengths=None):
    """outputs [B, T, N], (h [B, N], c [B, N]) of projected inputs [T, B, 4, N], row b up to lengths[b], in float64."""
    T, B, _, N = inputs.shape
    outputs = np.zeros((B, T, N))
    h, c = (np.array(part, np.float64) for part in state)
    for b in range(B):
        for t in range(T if lengths is None else lengths[b]):
            i, f, g, o = (inputs[t, b, gate] + h[b] @ kernel[:, gate] for gate in range(4))
            c[b] = sigmoid(f) * c[b] + sigmoid(i) * np.tanh(g)
            h[b] = sigmoid(o) * np.tanh(c[b])
            outputs[b, t] = h[b]
    return outputs, (h, c)


def lstm_layer(params, inputs, lengths=None, state=None):
    """The same for unprojected inputs [B, T, D] and the parameters of `nn.LSTMLayer`; without a state, from zeros."""
    kernel, bias = np.asarray(params['input_kernel'], np.float64), np.asarray(params['bias'], np.float64)
    projected = np.einsum('btd,dgn->tbgn', inputs, kernel) + bias
    state = state or (np.zeros((inputs.shape[0], bias.shape[-1])),) * 2
    return lstm(np.asarray(params['recurrent_kernel'], np.float64), projected, state, lengths)
