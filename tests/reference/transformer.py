"""A Transformer in plain numpy, float64, one head and one query at a time: the equations, with the names of our parameters."""

import math

import numpy as np

erf = np.vectorize(math.erf)
ACTIVATIONS = {
    'relu': lambda x: np.maximum(x, 0),
    'gelu': lambda x: x * (1 + erf(x / 2 ** 0.5)) / 2,
    'gelu_tanh': lambda x: x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3))) / 2,
    'silu': lambda x: x / (1 + np.exp(-x)),
    'quick_gelu': lambda x: x / (1 + np.exp(-1.702 * x)),
}


def project(params, x, contract=1):
    return np.tensordot(x, np.float64(params['kernel']), contract) + params.get('bias', 0)


def layer_norm(params, x, epsilon=1e-5):
    x = np.float64(x)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return x * params['scale'] + params.get('bias', 0)


def rms_norm(params, x, epsilon=1e-5):
    return x / np.sqrt((np.float64(x) ** 2).mean(-1, keepdims=True) + epsilon) * params['scale']


def attention(params, x, mask, memory=None, bias=0.0, rotate=lambda part: part, scale=None):
    """mask: [B, T, S]; bias: [H, T, S]; memory: what keys and values are made of, x where it is None."""
    query = rotate(project(params['query'], x))  # [B, T, H, K]
    memory = x if memory is None else memory
    key, value = rotate(project(params['key'], memory)), project(params['value'], memory)
    B, T, H, K = query.shape
    group = H // key.shape[2]
    out = np.zeros((B, T, H, K))
    for b in range(B):
        for h in range(H):
            scores = query[b, :, h] @ key[b, :, h // group].T * (K ** -0.5 if scale is None else scale)
            scores = scores + np.broadcast_to(bias, (H, *scores.shape))[h]
            for t in range(T):
                seen = np.flatnonzero(mask[b, t])
                if len(seen):
                    weights = np.exp(scores[t, seen] - scores[t, seen].max())
                    out[b, t, h] = weights / weights.sum() @ value[b, seen, h // group]
    return project(params['out'], out, 2)


def feed_forward(params, x, activation='gelu'):
    y = ACTIVATIONS[activation](project(params['in'], x))
    return project(params['out'], y * project(params['gate'], x) if 'gate' in params else y)


def mixture(params, x, chosen, activation='gelu'):
    """Step by step: the best `chosen` experts, weighed by their renormalised gates."""
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-1]):
        gates = np.exp(np.float64(x[place]) @ params['router']['kernel'])
        best = np.argsort(-gates)[:chosen]
        for e in best:
            part = lambda name: dict(kernel=params[f'{name}_kernel'][e], **({'bias': params[f'{name}_bias'][e]}
                                                                           if f'{name}_bias' in params else {}))
            names = ['in', 'out'] + ['gate'] * ('gate_kernel' in params)
            out[place] += gates[e] / gates[best].sum() * feed_forward({name: part(name) for name in names}, x[place], activation)
    return out


def block(params, x, mask, *, norm_position='pre', norm=layer_norm, memory=None, memory_mask=None, activation='gelu', **options):
    def add(x, name, layer):
        scale = params[f'{name}_norm']
        return x + layer(norm(scale, x)) if norm_position == 'pre' else norm(scale, x + layer(x))

    x = add(x, 'attention', lambda x: attention(params['attention'], x, mask, **options))
    if memory is not None:
        x = add(x, 'cross', lambda x: attention(params['cross'], x, memory_mask, memory, scale=options.get('scale')))
    return add(x, 'feed_forward', lambda x: feed_forward(params['feed_forward'], x, activation))


def causal(B, T):
    return np.broadcast_to(np.tril(np.ones((T, T), bool)), (B, T, T))


def until(lengths, T, S):
    """[B, T, S]: every query sees the first lengths[b] keys."""
    return np.broadcast_to((np.arange(S) < np.asarray(lengths)[:, None])[:, None], (len(lengths), T, S))


