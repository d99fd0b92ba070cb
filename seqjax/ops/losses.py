"""Losses, one value a prediction. Whoever adds them up also adds up the weights, and divides once at the very end."""

import jax
import jax.numpy as jnp


def cross_entropy(logits, targets):
    """-log softmax(logits)[target] in float32. logits: [..., V]; targets: [...] of integers; result: [...]."""
    logits = logits.astype(jnp.float32)
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen
