"""Losses, one value a prediction. Whoever adds them up also adds up the weights, and divides once at the very end."""

import jax
import jax.numpy as jnp


def cross_entropy(logits, targets, smoothing=0.0):
    """-log softmax(logits)[target] in float32. logits: [..., V]; targets: [...] of integers; result: [...].

    Targets may be shares of the tokens, too, floats [..., V] that add up to 1: -sum_v targets[v] log softmax(logits)[v].

    smoothing: the share of a target that is spread evenly over all V tokens (Szegedy et al. 2016, section 7):

        -(1 - smoothing) log p[target] - smoothing mean_v log p[v]
    """
    logits = logits.astype(jnp.float32)
    # A sum over the vocabulary and not a lookup: its gradient is a choice that joins the softmax's loop, not a scatter.
    if targets.ndim == logits.ndim:
        chosen = (targets * logits).sum(axis=-1)
    else:
        chosen = jnp.where(jnp.arange(logits.shape[-1]) == targets[..., None], logits, 0).sum(axis=-1)
    if smoothing:
        chosen = (1 - smoothing) * chosen + smoothing * logits.mean(axis=-1)
    return jax.nn.logsumexp(logits, axis=-1) - chosen
