"""Attention whose weights are products of features, so that the keys and values of the past fit into one matrix.

    o_t = f(q_t)^T C_t / f(q_t)^T z_t,   C_t = sum_s f(k_s) v_s^T,   z_t = sum_s f(k_s),   f(x) = elu(x) + 1

(Katharopoulos et al. 2020, equations 7 to 12). Its cost grows with T and not with its square, and causal attention is a
recurrent network with the state (C, z). Shapes: B rows, T queries, S keys, H heads of queries in G groups of R, G heads of
keys, K features, M width of the values.
"""

import jax
import jax.numpy as jnp

from seqjax.errors import FieldError
from seqjax.ops.attention.masks import Mask

CHUNK = 64  # so many steps look at each other directly, and at all earlier ones through the state


def linear_attend(query, key, value, mask=None):
    """[B, T, H, M]. query: [B, T, H, K]; key: [B, S, G, K]; value: [B, S, G, M]; mask: a `Mask`.

    Sums are float32 whatever the inputs. A query that may look nowhere gets zeros. Segments must be unbroken runs of steps.
    """
    mask = Mask() if mask is None else mask
    for field, given in dict(window=mask.window or None, prefix=mask.prefix, start=mask.start).items():
        if given is not None:
            raise FieldError(field, given, "linear attention adds up all of the past; take attention='softmax'")
    if mask.causal:
        state = linear_state(key.shape[0], key.shape[2], key.shape[3], value.shape[3])
        return linear_attend_step(state, query, key, value, lengths=mask.lengths, segments=mask.segments)[1]
    q, k, v = _features(query, key, value, mask.lengths)
    if mask.segments is not None:
        same = mask.segments[:, :, None] == mask.segments[:, None]  # [B, T, S]
        return _divide(*_directly(q, k, v, same), query, value)
    return _divide(*_through_state(q, (jnp.einsum('bsgk,bsgm->bgkm', k, v), k.sum(1))), query, value)


def linear_state(B, G, K, M):
    """The state before the first step: (C [B, G, K, M], z [B, G, K]), in float32."""
    return jnp.zeros((B, G, K, M), jnp.float32), jnp.zeros((B, G, K), jnp.float32)


def linear_attend_step(state, query, key, value, *, lengths=None, segments=None):
    """(state, [B, T, H, M]): causal attention to the T steps given, one of them or many, and to all that the state has seen.

    lengths: [B], steps from lengths[b] on leave no trace in the state. The state belongs to the first segment.
    """
    B, T = query.shape[:2]
    chunk = min(CHUNK, T)
    q, k, v = _features(query, key, value, lengths)
    segments = jnp.zeros((B, T), jnp.int32) if segments is None else segments
    causal = jnp.tril(jnp.ones((chunk, chunk), bool))

    def read(carry, now):
        (C, z), last = carry
        q, k, v, segments = now
        same = causal & (segments[:, :, None] == segments[:, None])
        earlier = (segments == last[:, None]).astype(jnp.float32)[..., None, None]  # [B, chunk, 1, 1]: the state is theirs
        direct, carried = _directly(q, k, v, same), _through_state(q, (C, z))
        out = direct[0] + carried[0] * earlier[..., None], direct[1] + carried[1] * earlier
        stays = (segments[:, -1] == last).astype(jnp.float32)[:, None, None]
        k = jnp.where((segments == segments[:, -1:])[..., None, None], k, 0)
        C = C * stays[..., None] + jnp.einsum('bsgk,bsgm->bgkm', k, v)
        return ((C, z * stays + k.sum(1)), segments[:, -1]), out

    pad = -T % chunk
    fill = lambda x, mode='constant': jnp.pad(x, ((0, 0), (0, pad)) + ((0, 0),) * (x.ndim - 2), mode=mode)
    cut = lambda x: x.reshape(B, -1, chunk, *x.shape[2:]).swapaxes(0, 1)
    join = lambda x: x.swapaxes(0, 1).reshape(B, -1, *x.shape[3:])[:, :T]
    cuts = tuple(map(cut, (fill(q), fill(k), fill(v), fill(segments, 'edge'))))
    (state, _), out = jax.lax.scan(read, (state, segments[:, 0]), cuts)
    return state, _divide(*map(join, out), query, value)


def _features(query, key, value, lengths):
    """f(q) [B, T, G, R, K], f(k) [B, S, G, K] with zeros from lengths[b] on, and v, all in float32."""
    (B, T, H, K), (_, S, G, _) = query.shape, key.shape
    q, k = (jax.nn.elu(x.astype(jnp.float32)) + 1 for x in (query.reshape(B, T, G, H // G, K), key))
    if lengths is not None:
        k = jnp.where((jnp.arange(S) < lengths[:, None])[..., None, None], k, 0)
    return q, k, value.astype(jnp.float32)


def _directly(q, k, v, seen):
    """Numerator [B, T, G, R, M] and denominator [B, T, G, R] from every pair of steps. seen: [B, T, S]."""
    weights = jnp.where(seen[:, None, None], jnp.einsum('btgrk,bsgk->bgrts', q, k), 0)
    return jnp.einsum('bgrts,bsgm->btgrm', weights, v), jnp.moveaxis(weights.sum(-1), 3, 1)


def _through_state(q, state):
    """Numerator and denominator from what the state has seen."""
    return jnp.einsum('btgrk,bgkm->btgrm', q, state[0]), jnp.einsum('btgrk,bgk->btgr', q, state[1])


def _divide(numerator, denominator, query, value):
    """[B, T, H, M] in the type of the values; 0 where the denominator is."""
    seen = (denominator > 0)[..., None]
    out = jnp.where(seen, numerator / jnp.where(seen, denominator[..., None], 1), 0)
    return out.reshape(*query.shape[:3], -1).astype(value.dtype)
