"""Mamba and RWKV from the equations of their papers, one row and one step at a time, in float64, without any care for overflow.

segments and lengths of a row are read as they are written: a step of another segment than the one before it forgets everything.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def layer_norm(params, x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * params['scale'] + params['bias']


def rms_norm(params, x):
    return x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * params['scale']


def steps_of(b, T, lengths, segments):
    """(t, whether a new text begins there) of the steps of row b that count."""
    for t in range(T if lengths is None else int(lengths[b])):
        yield t, segments is not None and t > 0 and segments[b, t] != segments[b, t - 1]


def selective_scan(x, delta, A, write, read, skip, state, lengths=None, segments=None):
    """Gu & Dao 2023: (y [B, T, E], h [B, N, E])."""
    h, y = np.array(state, np.float64), np.zeros(x.shape)
    for b in range(len(x)):
        for t, new in steps_of(b, x.shape[1], lengths, segments):
            h[b] = np.exp(delta[b, t] * A) * h[b] * (not new) + np.outer(write[b, t], delta[b, t] * x[b, t])
            y[b, t] = read[b, t] @ h[b] + skip * x[b, t]
    return y, h


def wkv(key, value, decay, bonus, state, lengths=None, segments=None):
    """Peng et al. 2023, equation 16: (wkv [B, T, D], numerator and denominator, each [B, D]). state: those two."""
    numerator, denominator = (np.array(part, np.float64) for part in state)
    out = np.zeros(key.shape)
    for b in range(len(key)):
        for t, new in steps_of(b, key.shape[1], lengths, segments):
            if new:
                numerator[b] = denominator[b] = 0
            k, v = np.float64(key[b, t]), value[b, t]
            out[b, t] = (numerator[b] + np.exp(bonus + k) * v) / (denominator[b] + np.exp(bonus + k))
            numerator[b] = np.exp(-decay) * numerator[b] + np.exp(k) * v
            denominator[b] = np.exp(-decay) * denominator[b] + np.exp(k)
    return out, numerator, denominator


def before(x, b, t, by, segments):
    """x of row b, `by` steps before t; zeros where that is outside of the row, or in another segment."""
    same = t >= by and (segments is None or segments[b, t - by] == segments[b, t])
    return x[b, t - by] if same else np.zeros(x.shape[-1])


def mamba(params, x, lengths=None, segments=None):
    """The mixer: x [B, T, D] -> [B, T, D], and h at the end."""
    (B, T, _), (K, E), N = x.shape, params['conv_kernel'].shape, len(params['A_log'])
    add = lambda name: params[name].get('bias', 0)
    R = params['step']['kernel'].shape[0]
    z, u = (x @ params[name]['kernel'] + add(name) for name in ('gate', 'in'))
    convolved, delta = np.zeros((2, B, T, E))
    chosen = np.zeros((B, T, R + 2 * N))
    for b in range(B):
        for t in range(T):
            total = sum(before(u, b, t, K - 1 - k, segments) * params['conv_kernel'][k] for k in range(K))
            convolved[b, t] = silu(total + params.get('conv_bias', 0))
            chosen[b, t] = convolved[b, t] @ params['selection']['kernel']
            delta[b, t] = np.log1p(np.exp(chosen[b, t, :R] @ params['step']['kernel'] + params['step_bias']))
    y, h = selective_scan(convolved, delta, -np.exp(np.float64(params['A_log'])), chosen[..., R:R + N], chosen[..., R + N:],
                          params['D'], np.zeros((B, N, E)), lengths, segments)
    return (y * silu(z)) @ params['out']['kernel'] + add('out'), h


def mixed(params, name, x, segments):
    """W (mu x_t + (1 - mu) x_{t-1})."""
    mu = params[f'{name}_mix']
    earlier = np.array([[before(x, b, t, 1, segments) for t in range(x.shape[1])] for b in range(len(x))])
    return (mu * x + (1 - mu) * earlier) @ params[name]['kernel']


def time_mixing(params, x, lengths=None, segments=None):
    r, k, v = (mixed(params, name, x, segments) for name in ('receptance', 'key', 'value'))
    zeros = np.zeros((2, len(x), x.shape[-1]))
    mean, *_ = wkv(k, v, np.exp(np.float64(params['decay'])), params['bonus'], zeros, lengths, segments)
    return (sigmoid(r) * mean) @ params['out']['kernel']


def channel_mixing(params, x, segments=None):
    r, k = (mixed(params, name, x, segments) for name in ('receptance', 'key'))
    return sigmoid(r) * (np.maximum(k, 0) ** 2 @ params['value']['kernel'])


def mamba_logits(params, tokens, segments=None):
    """A whole language model with a tied output."""
    x = np.float64(params['embedding']['table'])[tokens]
    for number in range(len(params['decoder']) - 1):
        block = params['decoder'][f'block_{number}']
        x = x + mamba(block['mixer'], rms_norm(block['mixer_norm'], x), segments=segments)[0]
    return rms_norm(params['decoder']['norm'], x) @ params['embedding']['table'].T


def rwkv_logits(params, tokens, segments=None):
    """A whole language model with an output of its own."""
    x = layer_norm(params['embedding_norm'], np.float64(params['embedding']['table'])[tokens])
    for number in range(len(params['decoder']) - 1):
        block = params['decoder'][f'block_{number}']
        x = x + time_mixing(block['time_mixing'], layer_norm(block['time_mixing_norm'], x), segments=segments)
        x = x + channel_mixing(block['channel_mixing'], layer_norm(block['channel_mixing_norm'], x), segments)
    return layer_norm(params['decoder']['norm'], x) @ params['output']['kernel']
