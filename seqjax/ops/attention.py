"""Attention: queries look up values by how well keys match.

A function of scores says how well query t and key s match, [B, T, S]; `soft_weights` or `hard_weights` make weights of them,
and `weigh` the mean of the values. `attend` is all of it at once, for many heads.
"""

import functools
import math

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion
from seqjax.ops.accelerator_attention import cudnn, cudnn_can, splash, splash_can
from seqjax.ops.blockwise_attention import LARGEST, LOWEST, blockwise
from seqjax.ops.masks import Mask, kept
from seqjax.ops.positions import bias_by_distance


def additive_scores(query, key, v):
    """v . tanh(q_t + k_s), where q = W s and k = U h are mapped already (Bahdanau et al. 2015, section A.1.2).

    query: [B, T, A]; key: [B, S, A]; v: [A].
    """
    hidden = jnp.tanh(query[:, :, None] + key[:, None])  # [B, T, S, A]
    return jnp.einsum('btsa,a->bts', hidden, v, preferred_element_type=jnp.float32)


def dot_scores(query, key):
    """q_t . k_s (Luong et al. 2015, 'dot'). query: [B, T, D]; key: [B, S, D]."""
    return jnp.einsum('btd,bsd->bts', query, key, preferred_element_type=jnp.float32)


def scaled_dot_scores(query, key):
    """q_t . k_s / sqrt(D): of a variance that does not grow with D (Vaswani et al. 2017, section 3.2.1)."""
    return dot_scores(query, key) / jnp.sqrt(query.shape[-1]).astype(jnp.float32)


def bilinear_scores(query, key, kernel):
    """q_t W k_s (Luong et al. 2015, 'general'). query: [B, T, D]; key: [B, S, E]; kernel: [D, E]."""
    return dot_scores(jnp.einsum('btd,de->bte', query, kernel), key)


def soft_weights(scores, mask=None):
    """softmax over s, in float32. mask: booleans that broadcast to the scores, True where a query may look.

    A query that may look nowhere has weights of zero and not the mean, and so has its gradient.
    """
    scores = scores.astype(jnp.float32)
    if mask is None:
        return jax.nn.softmax(scores)
    return jnp.where(mask, jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(jnp.float32).min)), 0)


def hard_weights(scores, mask=None):
    """1 for the key with the largest score, the first of equal ones, and 0 for the others.

    Their gradient is that of `soft_weights`: straight through (Bengio et al. 2013).
    """
    soft = soft_weights(scores, mask)
    possible = scores if mask is None else jnp.where(mask, scores, -jnp.inf)  # a softmax would level small differences
    hard = jax.nn.one_hot(jnp.argmax(possible, axis=-1), soft.shape[-1])
    if mask is not None:
        hard = jnp.where(mask, hard, 0)
    return hard + (soft - jax.lax.stop_gradient(soft))


def weigh(weights, value):
    """sum_s a_ts v_s. weights: [B, T, S]; value: [B, S, D]."""
    return jnp.einsum('bts,bsd->btd', weights.astype(value.dtype), value)


def attend(query, key, value, mask=None, *, bias=None, scale=None, dropout=0.0, dropout_key=None, implementation='auto'):
    """softmax(Q K^T / sqrt(K)) V, for every head at once (Vaswani et al. 2017, section 3.2.1), as [B, T, H, M].

    query: [B, T, H, K]; key: [B, S, G, K]; value: [B, S, G, M], where G divides H: head h reads the keys of group h // (H / G)
    (grouped queries, Ainslie et al. 2023). mask: a `Mask`, or booleans that broadcast to [B, H, T, S], True where a query may
    look. bias: [H, 2 S - 1], added to the scores by distance: bias[h, t - s + S - 1]. scale: in the place of 1 / sqrt(K).
    dropout: the share of the weights that is dropped, as dropout_key says.
    implementation:
        'plain'      all scores in memory; the only one that takes booleans as a mask
        'in_parts'   an eighth of the queries at a time, each with the keys in their sight
        'blockwise'  in memory that grows with T and not with its square, and without the blocks that nobody sees
        'cudnn'      on Nvidia GPUs; in 16 bits, with fewer kinds of masks, no bias and no dropout
        'splash'     on TPUs; with fewer kinds of masks, no bias and no dropout; on several TPUs under `jax.set_mesh`
        'auto'       the fastest that can, on the platform that the program is compiled for
    Scores and softmax are float32 whatever the inputs. A query that may look nowhere gets zeros, and so does its gradient.
    """
    mask = Mask() if mask is None else mask
    _check(query, key, bias, dropout, dropout_key)
    case = dict(bias=bias, scale=query.shape[-1] ** -0.5 if scale is None else scale, dropout=dropout, dropout_key=dropout_key)
    able = {name: functools.partial(function, **case) for name, (can, function) in IMPLEMENTATIONS.items()
            if can(query, key, value, mask, bias, dropout)}
    if implementation == 'auto':
        if query.shape[1] <= SMALL or 'blockwise' not in able:
            return able['plain'](query, key, value, mask)
        wide = functools.partial(able['blockwise'], block=LARGEST)  # an accelerator has no use for a CPU's small blocks
        on = {platform: able.get(name, wide) for platform, name in KERNELS.items()}
        default = able['in_parts' if query.shape[1] <= LONG else 'blockwise']
        return jax.lax.platform_dependent(query, key, value, mask, **on, default=default)
    if implementation not in able:
        raise FieldError('implementation', implementation, "cannot do this (see `attend`); take 'auto'"
                         if implementation in IMPLEMENTATIONS else suggestion(implementation, ['auto', *IMPLEMENTATIONS]))
    return able[implementation](query, key, value, mask)


def _check(query, key, bias, dropout, dropout_key):
    (_, T, H, _), (_, S, G, _) = query.shape, key.shape
    if H % G:
        raise FieldError('heads', H, f'must be a multiple of the {G} heads of keys and values')
    if dropout and dropout_key is None:
        raise FieldError('dropout', dropout, 'needs a dropout_key')
    if bias is not None and (bias.shape != (H, 2 * S - 1) or T > S):
        raise FieldError('bias', bias.shape, f'must be [H, 2 S - 1] = {(H, 2 * S - 1)}, for no more queries ({T}) than keys')


def plain(query, key, value, mask, bias, scale, dropout, dropout_key):
    """All scores at once: T x S of them for every head."""
    heads = _heads_first(query, key, value)
    seeds = _seeds(dropout, dropout_key)
    return _steps_first(_look(*heads, mask, bias, seeds, scale, dropout, 0, query.shape[1], 0, key.shape[1]))


def in_parts(query, key, value, mask, bias, scale, dropout, dropout_key):
    """Some queries after another, each with the keys that one of them may see; their weights are computed again backwards."""
    T, S = query.shape[1], key.shape[1]
    heads, seeds = _heads_first(query, key, value), _seeds(dropout, dropout_key)
    together = max(SMALL, math.ceil(T / PARTS))

    def part(t):
        count = min(together, T - t)
        low, high = mask.span(t, count, S)
        low = min(low, S - 1)  # with no key in sight, one that is masked
        look = functools.partial(_look, scale=scale, dropout=dropout, t=t, T=count, s=low, S=max(high - low, 1))
        return jax.checkpoint(look)(*heads, mask, bias, seeds)

    return _steps_first(jnp.concatenate([part(t) for t in range(0, T, together)], axis=3))


def _heads_first(query, key, value):
    """query: [B, G, R, T, K], R heads of queries for each of the G of keys; key: [B, G, S, K]; value: [B, G, S, M]."""
    B, T, H, K = query.shape
    G = key.shape[2]
    return query.reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4), key.swapaxes(1, 2), value.swapaxes(1, 2)


def _steps_first(y):
    """[B, G, R, T, M] as [B, T, H, M]."""
    B, G, R, T, M = y.shape
    return y.transpose(0, 3, 1, 2, 4).reshape(B, T, G * R, M)


def _seeds(dropout, dropout_key):
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


IMPLEMENTATIONS = {  # name: (whether it can, the function)
    'plain': (lambda *case: True, plain),
    'in_parts': (lambda query, key, value, mask, bias, dropout: isinstance(mask, Mask), in_parts),
    'blockwise': (lambda query, key, value, mask, bias, dropout: isinstance(mask, Mask), blockwise),
    'cudnn': (cudnn_can, cudnn),
    'splash': (splash_can, splash),
}
KERNELS = dict(cuda='cudnn', tpu='splash')  # the fastest on a platform, where it can
SMALL = 64  # up to so many queries one part is as fast as several
PARTS, LONG = 8, 1024  # a CPU is fastest in so many parts, with rows up to so long; 'blockwise' needs less memory for longer ones
