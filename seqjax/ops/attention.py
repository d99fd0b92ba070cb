"""Attention: queries look up values by how well keys match (Vaswani et al. 2017, section 3.2.1)."""

import jax
import jax.numpy as jnp


def causal_mask(T):
    """[T, T] of booleans: step t may look at steps s <= t."""
    return jnp.tril(jnp.ones((T, T), bool))


def attend(query, key, value, mask=None):
    """softmax(Q K^T / sqrt(K)) V, for every head at once.

    query: [B, T, H, K]; key, value: [B, S, H, K]; mask: booleans that broadcast to [B, H, T, S], True where a query may
    look. Scores and softmax are float32 whatever the inputs. A query that may look nowhere gets zeros, not the mean
    of the values, and its gradient is zero too.
    """
    K = query.shape[-1]
    scores = jnp.einsum('bthk,bshk->bhts', query, key, preferred_element_type=jnp.float32) / jnp.sqrt(K).astype(jnp.float32)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores)  # [B, H, T, S]
    if mask is not None:
        weights = jnp.where(mask, weights, 0)
    return jnp.einsum('bhts,bshk->bthk', weights.astype(value.dtype), value)
