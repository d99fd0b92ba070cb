"""Losses over pairs of views: NT-Xent (SimCLR), CLIP's symmetric loss, and the self-distillation of DINO. One value a row.

Whoever adds the values up divides once, by the number of rows that are `there`. Rows that only fill up a batch are neither
anchors nor negatives. All sums are float32, whatever the inputs.

Shapes: B rows, E width of an embedding, V views of a row, K dimensions of DINO's output.
"""

import jax
import jax.numpy as jnp

FAR = -1e9  # the logit of a pair that is left out


def unit_length(x: jax.Array, epsilon: float = 1e-6) -> jax.Array:
    """x / sqrt(|x|^2 + epsilon^2) along the last axis, in float32: the gradient at 0 is finite."""
    x = x.astype(jnp.float32)
    return x * jax.lax.rsqrt((x ** 2).sum(axis=-1, keepdims=True) + epsilon ** 2)


def nt_xent(first: jax.Array, second: jax.Array, temperature: float, there: jax.Array | None = None) -> jax.Array:
    """NT-Xent, the normalised temperature-scaled cross-entropy of SimCLR.

        l(i, j) = -log exp(sim(z_i, z_j) / tau) / sum_{k != i} exp(sim(z_i, z_k) / tau),     k over all 2B views
        L_b     = (l(b, b') + l(b', b)) / 2,     b and b' the two views of row b

    so that the mean of L over the rows is the paper's loss. sim is the cosine. A network that knows nothing has ln(2B - 1).

    Args:
        first, second: [B, E], one view of every row and the other.
        temperature: tau.
        there: [B] of booleans, the rows that count; None: all.

    Returns:
        [B], 0 where a row is not there.

    Reference: Chen et al. 2020, "A Simple Framework for Contrastive Learning of Visual Representations", equation 1.
    """
    B = first.shape[0]
    there = jnp.ones(B, bool) if there is None else there
    z = unit_length(jnp.concatenate([first, second]))                                      # [2B, E]
    both = jnp.concatenate([there, there])
    logits = jnp.einsum('ie,je->ij', z, z) / temperature                                   # [2B, 2B]
    logits = jnp.where(both & ~jnp.eye(2 * B, dtype=bool), logits, FAR)
    positive = jnp.tile(jnp.einsum('be,be->b', z[:B], z[B:]) / temperature, 2)             # [2B]
    losses = jax.nn.logsumexp(logits, axis=-1) - positive
    return jnp.where(there, (losses[:B] + losses[B:]) / 2, 0)


def clip_loss(images: jax.Array, texts: jax.Array, scale: jax.Array, there: jax.Array | None = None) -> jax.Array:
    """The symmetric loss of CLIP: every image finds its text among all texts, and every text its image.

        logits = scale images texts^T                                 # [B, B]
        loss   = (cross_entropy(logits, 0 ... B - 1, over the texts) + cross_entropy(logits, 0 ... B - 1, over the images)) / 2

    A network that knows nothing has ln B.

    Args:
        images, texts: [B, E], of length 1.
        scale: exp of the learned log temperature, a scalar.
        there: [B] of booleans, the pairs that count; None: all.

    Returns:
        [B], 0 where a pair is not there.

    Reference: Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", figure 3.
    """
    there = jnp.ones(images.shape[0], bool) if there is None else there
    logits = scale * jnp.einsum('be,ce->bc', images.astype(jnp.float32), texts.astype(jnp.float32))
    logits = jnp.where(there[:, None] & there, logits, FAR)
    right = jnp.diagonal(logits)
    losses = (jax.nn.logsumexp(logits, axis=1) + jax.nn.logsumexp(logits, axis=0)) / 2 - right
    return jnp.where(there, losses, 0)


def dino_targets(teacher: jax.Array, center: jax.Array, temperature: float | jax.Array) -> jax.Array:
    """What the student is to find: the teacher's outputs centred and sharpened, softmax((teacher - center) / temperature).

    Centring alone would make them uniform, and sharpening alone lets one dimension win everywhere; together neither happens.

    Args:
        teacher: [..., K], before any softmax.
        center: [K], a running mean of the teacher's outputs.
        temperature: of the teacher, lower than the student's.

    Returns:
        [..., K], without a gradient.

    Reference: Caron et al. 2021, "Emerging Properties in Self-Supervised Vision Transformers", section 3.1.
    """
    return jax.lax.stop_gradient(jax.nn.softmax((teacher.astype(jnp.float32) - center) / temperature))


def dino_loss(student: jax.Array, targets: jax.Array, temperature: float = 0.1) -> jax.Array:
    """The cross-entropy of DINO between different views of a row.

        L_b = 1 / n sum_{u, v: u != v} sum_k -P_t(view u)_k log P_s(view v)_k,     P_s = softmax(student / temperature)

    u goes over the G global views, which the teacher reads, and v over all V of the student; view u of the two is the same
    image, so n = G (V - 1). A student that knows nothing has ln K.

    Args:
        student: [B, V, K], before any softmax; the first G views are the global ones, in the order of the targets.
        targets: [B, G, K], of `dino_targets`.
        temperature: of the student.

    Returns:
        [B].

    Reference: Caron et al. 2021, equation 3 and algorithm 1.
    """
    V, G = student.shape[1], targets.shape[1]
    log_p = jax.nn.log_softmax(student.astype(jnp.float32) / temperature)                  # [B, V, K]
    pairs = -jnp.einsum('buk,bvk->buv', targets, log_p)                                    # [B, G, V]
    return jnp.where(jnp.eye(G, V, dtype=bool), 0, pairs).sum(axis=(1, 2)) / (G * (V - 1))
