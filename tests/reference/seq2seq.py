"""A recurrent encoder-decoder from the equations of its papers: one row, one layer and one token at a time, in float64."""

import jax
import numpy as np

from seqjax.special_tokens import START
from tests.reference import attention
from tests.reference.recurrence import recur, sigmoid

PARTS = {'gru': 1, 'lstm': 2, 'projected_lstm': 2}  # of a cell's state


def write(model, params, source, previous, encoded=None, first=None):
    """(logits [T, V], weights [T, S]) of one row. source: [S], no padding; previous: [T], what the decoder reads; encoded: what the
    encoder says of the source, if it is another one; first: the first state of every layer likewise."""
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    table = params['target_embedding']['table']
    outputs, final = encoded or _encode(model, params, source)
    mean = outputs.sum(axis=0) / max(len(source), 1)
    layers, logits, weights = first or _first_layers(model, params, final, mean), [], []
    answer = np.zeros(params['readout']['bias'].shape if 'readout' in params else 0)
    look = {'attention': lambda h: _look(model, params.get('lookup', {}), h, outputs),
            'mean_each': lambda h: (mean, np.zeros(len(source)))}.get(model.context)
    for token in previous:
        e, c = table[token], None
        if look and model.feed == 'state':  # Bahdanau et al. 2015: the context of the state before
            c, a = look(layers[-1][0])
            layers = _step(model, params['decoder'], np.concatenate([e, c]), layers)
        elif look and model.feed == 'input':  # Luong et al. 2015, section 3.3
            layers = _step(model, params['decoder'], np.concatenate([e, answer]), layers)
        else:
            layers = _step(model, params['decoder'], e, layers)
        h = layers[-1][0]
        if look and model.feed != 'state':
            c, a = look(h)
        if look:
            seen = (h, c, e) if model.feed == 'state' else (h, c)
            answer = np.tanh(_map(params['readout'], np.concatenate(seen)))
        logits.append(_score(model, params, answer if look else h, a if look else None, source))
        weights.append(a if look else np.zeros(len(source)))
    return np.array(logits), np.array(weights)


def loss(model, params, batch):
    """-sum log P(target | source, targets before it) over the targets of weight 1."""
    total = 0.0
    for source, length, targets, weights in zip(*(batch[name] for name in ('inputs', 'lengths', 'targets', 'weights'))):
        T = int(weights.sum())
        if T:
            logits, _ = write(model, params, source[:length], (START, *targets[:T - 1]))
            total -= log_softmax(logits)[np.arange(T), targets[:T]].sum()
    return total


def log_softmax(logits):
    logits = np.float64(logits) - np.max(logits, axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def _encode(model, params, source):
    """(outputs [S, E], for every layer the list of states at the ends of its directions)."""
    table = params['target_embedding' if model.shared else 'source_embedding']['table']
    x, final = table[source], []
    for layer in range(model.depth):
        ways = []
        for way in ('', '_reverse')[:1 + model.bidirectional]:
            weights = params['encoder'][f'layer_{layer}{way}']
            widths = (weights['recurrent_kernel'].shape[0], weights['bias'].shape[-1])  # of h and of c
            zeros = [np.zeros((1, width)) for width in widths[:PARTS[model.cell]]]
            y, state = recur(model.cell, weights, x[None], zeros, reverse=bool(way))
            ways.append((y[0], [part[0] for part in state]))
        x = np.concatenate([y for y, _ in ways], axis=1)
        final.append([state for _, state in ways])
    return x, final


def _first_layers(model, params, final, mean):
    if model.context == 'last':
        return [state for state, in final]
    layers = []
    for number, ways in enumerate(final):
        parts = [mean if model.context == 'mean' else np.concatenate(part) for part in zip(*ways)]
        layers.append([np.tanh(_map(params[f'bridge_{number}_{p}'], part)) for p, part in enumerate(parts)])
    return layers


def _step(model, params, x, layers):
    new = []
    for number, state in enumerate(layers):
        _, state = recur(model.cell, params[f'layer_{number}'], x[None, None], [part[None] for part in state])
        new.append([part[0] for part in state])
        x = new[-1][0]
    return new


def _look(model, params, q, outputs):
    """(context [E], weights [S])"""
    keys = outputs if model.attention == 'dot' else _map(params['key'], outputs)
    q = _map(params['query'], q) if 'query' in params else q
    score = dict(additive=lambda q, k: attention.additive_scores(q, k, params['v']),
                 scaled_dot=attention.scaled_dot_scores).get(model.attention, attention.dot_scores)
    scores = score(q[None, None], keys[None])
    seen = np.ones(scores.shape, bool)
    weights = (attention.hard_weights if model.hard_attention else attention.soft_weights)(scores, seen)[0, 0]
    values = _map(params['value'], outputs) if model.value_width else outputs
    return weights @ values, weights


def _score(model, params, answer, weights, source):
    logits = params['target_embedding']['table'] @ answer if model.tie_embeddings else _map(params['output'], answer)
    if not model.copy:
        return logits
    own = sigmoid(_map(params['gate'], answer))[0]  # See et al. 2017, equation 9
    probabilities = own * np.exp(log_softmax(logits))
    for token, weight in zip(source, weights):
        probabilities[token] += (1 - own) * weight
    return np.log(probabilities)


def _map(params, x):
    return x @ params['kernel'] + params.get('bias', 0)
