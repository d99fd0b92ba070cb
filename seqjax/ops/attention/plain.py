"""Attention by its equation: the scores of all queries and keys at once, or of some queries after another.

Shapes: B rows, T queries, S keys, G heads of keys, R heads of queries for each of them, H = G R, K and M widths of keys and values.
"""

import functools
import math

import jax
import jax.numpy as jnp

from seqjax.ops.attention.masks import LOWEST, Mask, kept
from seqjax.ops.attention.positions import bias_by_distance

SMALL = 64  # up to so many queries one part is as fast as several
PARTS = 8   # a CPU is fastest with so many


def plain(query, key, value, mask, bias, scale, dropout, dropout_key):
    """All scores at once: T x S of them for every head."""
    heads = heads_first(query, key, value)
    seeds = seeds_of(dropout, dropout_key)
    return steps_first(_look(*heads, mask, bias, seeds, scale, dropout, 0, query.shape[1], 0, key.shape[1]))


def in_parts(query, key, value, mask, bias, scale, dropout, dropout_key):
    """Some queries after another, each with the keys that one of them may see; their weights are computed again backwards."""
    T, S = query.shape[1], key.shape[1]
    heads, seeds = heads_first(query, key, value), seeds_of(dropout, dropout_key)
    together = max(SMALL, math.ceil(T / PARTS))

    def part(t):
        count = min(together, T - t)
        low, high = mask.span(t, count, S)
        low = min(low, S - 1)  # with no key in sight, one that is masked
        look = functools.partial(_look, scale=scale, dropout=dropout, t=t, T=count, s=low, S=max(high - low, 1))
        return jax.checkpoint(look)(*heads, mask, bias, seeds)

    return steps_first(jnp.concatenate([part(t) for t in range(0, T, together)], axis=3))


def heads_first(query, key, value):
    """query: [B, G, R, T, K], R heads of queries for each of the G of keys; key: [B, G, S, K]; value: [B, G, S, M]."""
    B, T, H, K = query.shape
    G = key.shape[2]
    return query.reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4), key.swapaxes(1, 2), value.swapaxes(1, 2)


def steps_first(y):
    """[B, G, R, T, M] as [B, T, H, M]."""
    B, G, R, T, M = y.shape
    return y.transpose(0, 3, 1, 2, 4).reshape(B, T, G * R, M)


def seeds_of(dropout, dropout_key):
    return jax.random.bits(dropout_key, (2,), jnp.uint32) if dropout else None


def _look(query, key, value, mask, bias, seeds, scale, dropout, t, T, s, S):
    """[B, G, R, T, M]: the T queries from step t on look at the S keys from step s on."""
    all_keys, facts = key.shape[2], isinstance(mask, Mask)
    query, key, value = query[..., t:t + T, :], key[:, :, s:s + S], value[:, :, s:s + S]
    B, G, R, _, K = query.shape
    # The heads of a group are rows of one product: with an axis of their own it would take XLA half as long again on a CPU.
    scores = jnp.einsum('bgtk,bgsk->bgts', query.reshape(B, G, R * T, K), key, preferred_element_type=jnp.float32)
    scores = scores.reshape(B, G * R, T, S) * scale
    if bias is not None:
        scores += bias_by_distance(bias, t, T, s, S, all_keys, mask.start if facts else None)
    seen = mask.block(t, T, s, S) if facts else mask
    if seen is not None:
        scores = jnp.where(seen, scores, -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.maximum(scores.max(-1, keepdims=True), LOWEST))
    weights = jnp.exp(scores - largest)  # [B, H, T, S]
    total = weights.sum(-1).reshape(B, G, R * T, 1)  # divides the sum of the values, which is smaller than the weights
    if dropout:
        weights = jnp.where(kept(seeds, dropout, B, G * R, t, T, s, S), weights / (1 - dropout), 0)
    weights = weights.astype(value.dtype).reshape(B, G, R * T, S)
    y = jnp.einsum('bgts,bgsm->bgtm', weights, value, preferred_element_type=jnp.float32)
    return (y / jnp.where(total > 0, total, 1)).astype(value.dtype).reshape(B, G, R, T, -1)
