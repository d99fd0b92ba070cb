"""Attention: queries look up values by how well keys match.

A function of scores says how well query t and key s match, [B, T, S]; `soft_weights` or `hard_weights` make weights of them,
and `weigh` the mean of the values. `attend` is all of it at once, for many heads.
"""

import functools

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError, suggestion
from seqjax.ops.attention.accelerator import cudnn, cudnn_can, splash, splash_can
from seqjax.ops.attention.blockwise import LARGEST, blockwise
from seqjax.ops.attention.masks import Mask
from seqjax.ops.attention.plain import SMALL, in_parts, plain


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
        'splash'     on TPUs; with fewer kinds of masks, no bias and no dropout; on several TPUs under `parallel.use_mesh`
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


IMPLEMENTATIONS = {  # name: (whether it can, the function)
    'plain': (lambda *case: True, plain),
    'in_parts': (lambda query, key, value, mask, bias, dropout: isinstance(mask, Mask), in_parts),
    'blockwise': (lambda query, key, value, mask, bias, dropout: isinstance(mask, Mask), blockwise),
    'cudnn': (cudnn_can, cudnn),
    'splash': (splash_can, splash),
}
KERNELS = dict(cuda='cudnn', tpu='splash')  # the fastest on a platform, where it can
LONG = 1024  # up to so many queries a CPU is fastest in parts; 'blockwise' needs less memory for more
