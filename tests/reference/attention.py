"""Attention, one query of one head at a time."""

import numpy as np


def attend(query, key, value, mask):
    """[B, T, H, K] from query [B, T, H, K], key and value [B, S, H, K] and mask [B, H, T, S], in float64."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    B, T, H, K = query.shape
    result = np.zeros(query.shape)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                seen = np.flatnonzero(mask[b, h, t])
                if not len(seen):
                    continue
                weights = np.exp([query[b, t, h] @ key[b, s, h] / K ** 0.5 for s in seen])
                result[b, t, h] = weights / weights.sum() @ value[b, seen, h]
    return result


def attend_and_gradients(query, key, value, seen, d_out, bias=None, start=(0,)):
    """(output, d_query, d_key, d_value, d_bias) in float64, by the closed form of every softmax.

    query: [B, T, H, K]; key: [B, S, G, K]; value: [B, S, G, M]; seen: [B, H, T, S]; d_out: [B, T, H, M]; bias: [H, 2 S - 1];
    start: [B], where the first query of a row stands.
    """
    query, key, value, d_out = (np.asarray(x, np.float64) for x in (query, key, value, d_out))
    (B, T, H, K), (S, G) = query.shape, key.shape[1:3]
    bias = np.zeros((H, T + 2 * S)) if bias is None else np.asarray(bias, np.float64)
    start, scale = np.broadcast_to(start, B), K ** -0.5
    out, d_query, d_key, d_value, d_bias = (np.zeros(x.shape) for x in (d_out, query, key, value, bias))
    for b, t, h in np.ndindex(B, T, H):
        g, places = h // (H // G), np.flatnonzero(seen[b, h, t])
        if not len(places):
            continue
        by_distance = start[b] + t - places + S - 1
        scores = scale * key[b, places, g] @ query[b, t, h] + bias[h, by_distance]
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        out[b, t, h] = weights @ value[b, places, g]
        d_weights = value[b, places, g] @ d_out[b, t, h]
        d_scores = weights * (d_weights - weights @ d_weights)
        d_query[b, t, h] = scale * d_scores @ key[b, places, g]
        d_key[b, places, g] += scale * np.outer(d_scores, query[b, t, h])
        d_value[b, places, g] += np.outer(weights, d_out[b, t, h])
        d_bias[h, by_distance] += d_scores
    return out, d_query, d_key, d_value, d_bias


def linear_attend(query, key, value, seen):
    """[B, T, H, M]: means of the values with weights f(q) . f(k), f(x) = x + 1 above 0 and exp(x) below, in float64."""
    f = lambda x: np.where(x > 0, x + 1, np.exp(np.float64(x)))
    B, T, H, _ = query.shape
    G, result = key.shape[2], np.zeros((B, T, H, value.shape[3]))
    for b, t, h in np.ndindex(B, T, H):
        g, places = h // (H // G), np.flatnonzero(seen[b, h, t])
        if len(places):
            weights = f(key[b, places, g]) @ f(query[b, t, h])
            result[b, t, h] = weights / weights.sum() @ value[b, places, g]
    return result


def seen(B, H, T, S, *, causal=False, window=0, prefix=None, lengths=None, segments=None, start=None):
    """[B, H, T, S]: where a query may look, one question after another."""
    result = np.zeros((B, H, T, S), bool)
    for b, h, t, s in np.ndindex(result.shape):
        at = t if start is None else start[b] + t
        nearest = range(at - window + 1, at + 1) if causal else range(at - window // 2, at - window // 2 + window)
        reach = (s <= at or not causal) and (s in nearest or not window)
        reach = reach or prefix is not None and s < prefix[b]
        reach = reach and (lengths is None or s < lengths[b])
        result[b, h, t, s] = reach and (segments is None or segments[b][t] == segments[b][s])
    return result


def additive_scores(query, key, v):
    """v . tanh(q_t + k_s), [B, T, S], in float64."""
    return _scores(query, key, lambda q, k: np.sum(v * np.tanh(q + k)))


def dot_scores(query, key):
    return _scores(query, key, np.dot)


def scaled_dot_scores(query, key):
    return _scores(query, key, lambda q, k: np.dot(q, k) / np.sqrt(len(k)))


def bilinear_scores(query, key, kernel):
    return _scores(query, key, lambda q, k: sum(q[d] * kernel[d, e] * k[e] for d, e in np.ndindex(kernel.shape)))


def soft_weights(scores, mask):
    """A softmax over the places of every query that it may look at, in float64. scores, mask: [B, T, S]."""
    weights = np.zeros(scores.shape)
    for b, t in np.ndindex(scores.shape[:2]):
        seen = np.flatnonzero(mask[b, t])
        if len(seen):
            powers = np.exp(np.asarray(scores[b, t, seen], np.float64) - scores[b, t, seen].max())
            weights[b, t, seen] = powers / powers.sum()
    return weights


def hard_weights(scores, mask):
    """1 for the first of the largest scores that a query may look at."""
    weights = np.zeros(scores.shape)
    for b, t in np.ndindex(scores.shape[:2]):
        seen = np.flatnonzero(mask[b, t])
        if len(seen):
            weights[b, t, max(seen, key=lambda s: (scores[b, t, s], -s))] = 1
    return weights


def weigh(weights, value):
    """[B, T, D] from weights [B, T, S] and value [B, S, D], in float64."""
    result = np.zeros((*weights.shape[:2], value.shape[2]))
    for b, t, s in np.ndindex(weights.shape):
        result[b, t] += np.float64(weights[b, t, s]) * value[b, s]
    return result


def gradients(function, arrays, directions, step=1e-5):
    """d sum(function(*arrays) * directions) / d array for every array, by central differences in float64."""
    arrays, found = [np.array(x, np.float64) for x in arrays], []
    for x in arrays:
        gradient = np.zeros(x.shape)
        for place in np.ndindex(x.shape):
            kept, sides = x[place], []
            for moved in (kept + step, kept - step):
                x[place] = moved
                sides.append(np.sum(function(*arrays) * directions))
            x[place], gradient[place] = kept, (sides[0] - sides[1]) / (2 * step)
        found.append(gradient)
    return found


def _scores(query, key, match):
    query, key = np.asarray(query, np.float64), np.asarray(key, np.float64)
    return np.array([[[match(q, k) for k in keys] for q in queries] for queries, keys in zip(query, key)])
