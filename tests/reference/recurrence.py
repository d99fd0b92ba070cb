"""Every recurrent cell from the equations of its paper, one row and one step at a time, in float64.

A step takes the weights, the input i [D], the state before (a tuple of vectors), and h as the recurrent matrix sees it.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def total(weights, gate, i, h):
    """W i + U h + b of one gate."""
    return i @ weights['input_kernel'][:, gate] + h @ weights['recurrent_kernel'][:, gate] + weights['bias'][gate]


def elman(weights, i, state, h):
    """Elman 1990."""
    return np.tanh(total(weights, 0, i, h)),


def relu(weights, i, state, h):
    return np.maximum(total(weights, 0, i, h), 0),


def orthogonal(weights, i, state, h):
    """Helfrich et al. 2018: Cayley's transform of a skew-symmetric matrix, and the modReLU of Arjovsky et al. 2016."""
    A = weights['skew'] - weights['skew'].T
    I = np.eye(len(A))
    z = i @ weights['input_kernel'][:, 0] + h @ (np.linalg.inv(I + A) @ (I - A)) + weights['bias'][0]
    return np.array([np.sign(z_n) * max(abs(z_n) + b_n, 0) for z_n, b_n in zip(z, weights['threshold'])]),


def lstm(weights, i, state, h, candidate=np.tanh):
    """Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000."""
    write, keep, new, read = (total(weights, gate, i, h) for gate in range(4))
    c = sigmoid(keep) * state[1] + sigmoid(write) * candidate(new)
    return sigmoid(read) * np.tanh(c), c


def peephole_lstm(weights, i, state, h):
    """Gers & Schmidhuber 2000: the first two gates see the old cell, the last one sees the new."""
    write, keep, new, read = (total(weights, gate, i, h) for gate in range(4))
    p_write, p_keep, p_read = weights['peephole']
    c = sigmoid(keep + p_keep * state[1]) * state[1] + sigmoid(write + p_write * state[1]) * np.tanh(new)
    return sigmoid(read + p_read * c) * np.tanh(c), c


def coupled_lstm(weights, i, state, h):
    """Greff et al. 2017, CIFG: what is forgotten is written."""
    keep, new, read = (total(weights, gate, i, h) for gate in range(3))
    c = sigmoid(keep) * state[1] + (1 - sigmoid(keep)) * np.tanh(new)
    return sigmoid(read) * np.tanh(c), c


def layer_norm(x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def layer_norm_lstm(weights, i, state, h):
    """Ba, Kiros & Hinton 2016, equations 20-22."""
    D, G, N = weights['input_kernel'].shape
    of_input = layer_norm(i @ weights['input_kernel'].reshape(D, G * N)).reshape(G, N) * weights['input_scale']
    of_state = layer_norm(h @ weights['recurrent_kernel'].reshape(N, G * N)).reshape(G, N) * weights['recurrent_scale']
    write, keep, new, read = of_input + of_state + weights['bias']
    c = sigmoid(keep) * state[1] + sigmoid(write) * np.tanh(new)
    return sigmoid(read) * np.tanh(layer_norm(c) * weights['cell_scale'] + weights['cell_shift']), c


def projected_lstm(weights, i, state, h):
    """Sak et al. 2014: a linear map makes the output narrow."""
    wide, c = lstm(weights, i, state, h)
    return wide @ weights['projection_kernel'], c


def gru(weights, i, state, h, candidate=np.tanh):
    """Cho et al. 2014, the reset gate after the matmul."""
    reset, keep = sigmoid(total(weights, 0, i, h)), sigmoid(total(weights, 1, i, h))
    from_state = h @ weights['recurrent_kernel'][:, 2] + weights['candidate_bias']
    new = candidate(i @ weights['input_kernel'][:, 2] + weights['bias'][2] + reset * from_state)
    return keep * state[0] + (1 - keep) * new,


def gru_before(weights, i, state, h):
    """Cho et al. 2014 as published: the reset gate before the matmul, which sees all of h."""
    reset, keep = sigmoid(total(weights, 0, i, h)), sigmoid(total(weights, 1, i, h))
    from_state = (reset * state[0]) @ weights['candidate_kernel']
    new = np.tanh(i @ weights['input_kernel'][:, 2] + weights['bias'][2] + from_state)
    return keep * state[0] + (1 - keep) * new,


def min_gru(weights, i, state, h):
    """Feng et al. 2024."""
    u, g = (i @ weights['input_kernel'][:, gate] + weights['bias'][gate] for gate in range(2))
    return sigmoid(u) * state[0] + (1 - sigmoid(u)) * g,


def min_lstm(weights, i, state, h):
    """Feng et al. 2024: two gates that are made to add up to one."""
    f, w, g = (i @ weights['input_kernel'][:, gate] + weights['bias'][gate] for gate in range(3))
    f, w = sigmoid(f), sigmoid(w)
    return f / (f + w) * state[0] + w / (f + w) * g,


def eigenvalues(weights):
    """Orvieto et al. 2023: lambda = exp(-exp(nu) + i exp(theta))."""
    return np.exp(-np.exp(weights['nu'])) * (np.cos(np.exp(weights['theta'])) + 1j * np.sin(np.exp(weights['theta'])))


def lru(weights, i, state, h):
    """Orvieto et al. 2023."""
    real, imaginary = (i @ weights['input_kernel'][:, part] + weights['bias'][part] for part in range(2))
    return eigenvalues(weights) * state[0] + np.sqrt(1 - abs(eigenvalues(weights)) ** 2) * (real + 1j * imaginary),


def lru_output(weights, i, h):
    C = weights['output_kernel'][:, 0] + 1j * weights['output_kernel'][:, 1]
    y = (h @ C).real + i @ weights['skip_kernel']
    return y * sigmoid(y @ weights['gate_kernel'])


CELLS = {'elman': elman, 'relu': relu, 'orthogonal': orthogonal, 'lstm': lstm, 'peephole_lstm': peephole_lstm,
         'coupled_lstm': coupled_lstm, 'layer_norm_lstm': layer_norm_lstm, 'projected_lstm': projected_lstm, 'gru': gru,
         'gru_before': gru_before, 'min_gru': min_gru, 'min_lstm': min_lstm, 'lru': lru}


def recur(step, weights, inputs, state=None, lengths=None, *, reverse=False, segments=None, fresh=None, hold=None,
          state_mask=None):
    """outputs [B, T, M] and the final state. step: a name of CELLS or a function; no state: that of an LSTM, zeros."""
    step = CELLS.get(step, step)
    weights = {name: np.asarray(array, np.float64) for name, array in weights.items()}
    B, T, _ = inputs.shape
    state = (np.zeros((B, weights['bias'].shape[-1])),) * 2 if state is None else state
    final = [np.array(part, np.complex128 if step is lru else np.float64) for part in state]
    outputs = np.zeros((B, T, weights['bias'].shape[-1] if step is lru else state[0].shape[-1]))
    for b in range(B):
        length = T if lengths is None else int(lengths[b])
        before = None
        for t in reversed(range(length)) if reverse else range(length):
            s = [part[b] for part in final]
            if segments is not None and before is not None and segments[b, t] != segments[b, before]:
                s = [np.zeros_like(part) for part in s] if fresh is None else [part[b] for part in fresh]
            new = step(weights, inputs[b, t], s, s[0] if state_mask is None else s[0] * state_mask[b])
            for part, (old, value) in enumerate(zip(s, new)):
                kept = 0 if hold is None else hold[part][b, t]
                final[part][b] = kept * old + (1 - kept) * value
            outputs[b, t] = lru_output(weights, inputs[b, t], final[0][b]) if step is lru else final[0][b]
            before = t
    return outputs, tuple(final)
