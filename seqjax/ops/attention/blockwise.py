"""Attention block by block: blocks that nobody sees are left out, and only a few of them are in memory at a time.

The forward pass keeps, for every query, the largest score m and the sum l of exp(score - m) so far, and corrects what it has
added up when a larger score comes (Milakov & Gimelshein 2018). The backward pass computes the weights again, from the scores
and logsumexp = m + log l, instead of storing them (Dao et al. 2022, algorithm 4):

    P = exp(Q K^T - logsumexp),   dV = P^T dO,   dS = P * (dO V^T - rowsum(dO * O)),   dQ = dS K,   dK = dS^T Q

Shapes: B rows, T queries, S keys, G heads of keys, R heads of queries for each of them, K and M widths of keys and values.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from seqjax.ops.attention.masks import LOWEST, Mask, kept
from seqjax.ops.attention.plain import heads_first, seeds_of, steps_first
from seqjax.ops.attention.positions import bias_by_distance

SMALLEST, LARGEST = 64, 512  # steps in a block
SCORES = 2 ** 18  # so many of a block fit into the cache of a core, in all rows and heads


class Plan(NamedTuple):
    """What is known before any number is: how weights are made of scores, and the pairs of blocks that are looked at."""

    scale: float
    dropout: float
    T: int  # queries in a block
    S: int  # keys in a block
    pairs: tuple  # (first query, first key) of every block that somebody may see


class Inputs(NamedTuple):
    """The arrays of one attention, in whole blocks; None where there is no bias or no dropout."""

    query: jax.Array  # [B, G, R, T, K]
    key: jax.Array  # [B, G, S, K]
    value: jax.Array  # [B, G, S, M]
    bias: jax.Array | None  # [G R, at least T + S - 1]
    mask: Mask
    seeds: jax.Array | None  # [2]


def blockwise(query, key, value, mask, bias, scale, dropout, dropout_key, block=0):
    """`attend` under a `Mask`. query: [B, T, H, K]; key: [B, S, G, K]; value: [B, S, G, M]; returns [B, T, H, M].

    block: steps in a block; 0: as many as the cache of a CPU has room for, and a window.
    """
    (B, T, H, _), S = query.shape, key.shape[1]
    block = block or _fitting(B * H, mask)
    t, s = (math.ceil(steps / math.ceil(steps / block)) for steps in (T, S))
    query, key, value, mask, bias = _whole_blocks(query, key, value, mask, bias, -T % t, -S % s)
    plan = Plan(scale, dropout, t, s, _pairs(query.shape[1], key.shape[1], mask, t, s))
    out = _attend(plan, Inputs(*heads_first(query, key, value), bias, mask, seeds_of(dropout, dropout_key)))
    return steps_first(out)[:, :T]


def _fitting(heads, mask):
    """The largest block, a power of two, whose scores for so many heads of all rows stay in the cache.

    It is no larger than a window, of which there would be less in a block than of what it hides.
    """
    largest = min(mask.window or LARGEST, LARGEST)
    block = SMALLEST
    while 2 * block <= largest and heads * (2 * block) ** 2 <= SCORES:
        block *= 2
    return block


def _whole_blocks(query, key, value, mask, bias, more_T, more_S):
    """The same with so many more queries and keys, which nobody sees."""
    B, S = key.shape[:2]
    pad = lambda x, more: jnp.pad(x, ((0, 0), (0, more)) + ((0, 0),) * (x.ndim - 2))
    if more_S:
        mask = mask.replace(lengths=jnp.full(B, S, jnp.int32) if mask.lengths is None else jnp.minimum(mask.lengths, S))
    if mask.segments is not None:
        mask = mask.replace(segments=pad(mask.segments, more_T))
    bias = None if bias is None else jnp.pad(bias, ((0, 0), (more_S, more_T)), mode='edge')
    return pad(query, more_T), pad(key, more_S), pad(value, more_S), mask, bias


def _pairs(T, S, mask, t, s):
    """(first query, first key) of every pair of blocks, but for those that the mask hides whatever its arrays are."""
    spans = ((first, mask.span(first, t, S)) for first in range(0, T, t))
    return tuple((first, key) for first, (low, high) in spans for key in range(low - low % s, high, s))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(plan, inputs):
    """[B, G, R, T, M] in the type of the values."""
    return _forward(plan, inputs)[0]


def _forward(plan, inputs):
    def add(sums, pair):
        m, l, total = (_cut(x, pair[0], plan.T) for x in sums)
        larger, l_here, total_here = _look(plan, inputs, pair, m)
        shrink = jnp.exp(m - larger)
        new = larger, l * shrink + l_here, total * shrink + total_here
        return tuple(_put(x, part, pair[0]) for x, part in zip(sums, new)), None

    none = jnp.zeros_like(inputs.query[..., :1], jnp.float32)
    sums = none + LOWEST, none, jnp.broadcast_to(none, (*none.shape[:-1], inputs.value.shape[-1]))
    (m, l, total), _ = jax.lax.scan(add, sums, _places(plan))
    l = jnp.where(l > 0, l, 1)  # a query that sees nothing has a total of 0
    out = (total / l).astype(inputs.value.dtype)
    return out, (inputs, out, m + jnp.log(l))


def _backward(plan, saved, d_out):
    inputs, out, logsumexp = saved
    along = (d_out.astype(jnp.float32) * out.astype(jnp.float32)).sum(-1, keepdims=True)  # [B, G, R, T, 1]

    def add(sums, pair):
        *new, d_bias = _look_back(plan, inputs, pair, d_out, logsumexp, along)
        *sums, bias_sum = sums
        firsts = pair[0], pair[1], pair[1]
        sums = [_put(x, _cut(x, first, part.shape[-2]) + part, first) for x, part, first in zip(sums, new, firsts)]
        return (*sums, None if d_bias is None else bias_sum + d_bias), None

    zeros = tuple(None if x is None else jnp.zeros_like(x, jnp.float32) for x in inputs[:4])
    sums, _ = jax.lax.scan(add, zeros, _places(plan))
    return Inputs(*(None if x is None else x.astype(like.dtype) for x, like in zip(sums, inputs)), mask=None, seeds=None),


_attend.defvjp(_forward, _backward)
_attend = jax.jit(_attend, static_argnums=0)  # traced once for all layers of one shape


def _look(plan, inputs, pair, m):
    """What the queries of a pair see in its keys, where their largest score so far is m: (new m, sum, weighted values)."""
    value = _cut(inputs.value, pair[1], plan.S)
    scores = _scores(plan, inputs, pair)
    m = jnp.maximum(scores.max(-1, keepdims=True), m)
    weights = jnp.exp(scores - m)
    total = _product('bgts,bgsm->bgtm', _drop(plan, inputs, pair, weights).astype(value.dtype), value)
    return m, weights.sum(-1, keepdims=True), total


def _look_back(plan, inputs, pair, d_out, logsumexp, along):
    """Gradients of the queries, keys, values and the bias that come from a pair, in float32."""
    query, d_out, logsumexp, along = (_cut(x, pair[0], plan.T) for x in (inputs.query, d_out, logsumexp, along))
    key, value = (_cut(x, pair[1], plan.S) for x in (inputs.key, inputs.value))
    weights = jnp.exp(_scores(plan, inputs, pair) - logsumexp)
    d_value = _product('bgts,bgtm->bgsm', _drop(plan, inputs, pair, weights).astype(value.dtype), d_out)
    d_weights = _drop(plan, inputs, pair, _product('bgtm,bgsm->bgts', d_out, value))
    d_scores = weights * (d_weights - along)
    of_bias = functools.partial(_bias, plan, inputs, pair)
    d_bias = None if inputs.bias is None else jax.vjp(of_bias, inputs.bias)[1](d_scores)[0]
    d_scores = d_scores.astype(query.dtype)
    d_query = _product('bgts,bgsk->bgtk', d_scores, key) * plan.scale
    d_key = _product('bgts,bgtk->bgsk', d_scores, query) * plan.scale
    return d_query, d_key, d_value, d_bias


def _scores(plan, inputs, pair):
    """[B, G, R, T, S] of a pair, in float32; -inf where a query may not look."""
    query, key = _cut(inputs.query, pair[0], plan.T), _cut(inputs.key, pair[1], plan.S)
    scores = _product('bgtk,bgsk->bgts', query, key) * plan.scale
    if inputs.bias is not None:
        scores += _bias(plan, inputs, pair, inputs.bias)
    seen = inputs.mask.block(pair[0], plan.T, pair[1], plan.S)
    if seen is None:
        return scores
    return jnp.where(seen if seen.ndim == 2 else seen[:, None], scores, -jnp.inf)


def _bias(plan, inputs, pair, bias):
    """[B, G, R, T, S] of a pair, in float32."""
    (B, G, R), S = inputs.query.shape[:3], inputs.key.shape[2]
    scores = bias_by_distance(bias, pair[0], plan.T, pair[1], plan.S, S, inputs.mask.start)
    return jnp.broadcast_to(scores.reshape(-1, G, R, plan.T, plan.S), (B, G, R, plan.T, plan.S))


def _drop(plan, inputs, pair, weights):
    if not plan.dropout:
        return weights
    B, G, R = weights.shape[:3]
    stay = kept(inputs.seeds, plan.dropout, B, G * R, pair[0], plan.T, pair[1], plan.S).reshape(weights.shape)
    return jnp.where(stay, weights / (1 - plan.dropout), 0)


def _product(equation, *arrays):
    """An einsum in float32, for which R heads of T steps are R T steps: an axis of their own would cost XLA time on a CPU."""
    R, T = next(x.shape[2:4] for x in arrays if x.ndim == 5)
    flat = (x.reshape(*x.shape[:2], R * T, -1) if x.ndim == 5 else x for x in arrays)
    y = jnp.einsum(equation, *flat, preferred_element_type=jnp.float32)
    return y.reshape(*y.shape[:2], R, T, -1) if 't' in equation[-4:] else y


def _places(plan):
    """The pairs as two arrays of integers."""
    return tuple(jnp.array([pair[axis] for pair in plan.pairs], jnp.int32) for axis in (0, 1))


def _cut(x, first, count):
    """So many steps from `first` on, of [..., steps, width]."""
    return jax.lax.dynamic_slice_in_dim(x, first, count, axis=x.ndim - 2)


def _put(x, part, first):
    """x with `part` in the place of the steps from `first` on."""
    return jax.lax.dynamic_update_slice_in_dim(x, part, first, axis=x.ndim - 2)
