"""The selective state space of Mamba: a linear recurrence that chooses at every step what to keep, to write and to read.

    h_t = exp(delta_t A) * h_{t-1} + delta_t B_t x_t,     y_t = C_t h_t + D x_t

(Gu & Dao 2023, algorithm 2 and section 3.6). Each of E channels has N states and a step size delta_t > 0 of its own; B_t and C_t,
`write` and `read` here, serve all channels. Shapes: B rows, T steps, E channels, N states.
"""

import jax
import jax.numpy as jnp

from seqjax.ops.pooling import mask_steps
from seqjax.ops.recurrence.linear_scan import linear_recurrence
from seqjax.ops.recurrence.token_shift import segment_starts

PIECE = 16  # so many steps at a time: with N = 16 the states that are stored between pieces are as large as x, not N times that


def selective_state(B, N, E):
    """The state before the first step, [B, N, E] in float32."""
    return jnp.zeros((B, N, E), jnp.float32)


def selective_scan(x, delta, A, write, read, skip, state, lengths=None, *, segments=None, method=None):
    """(y [B, T, E], state [B, N, E]).

    x, delta: [B, T, E]. A: [N, E], negative. write, read: [B, T, N]. skip: [E], the D of the equation. state: [B, N, E], before
    the first step; it belongs to the first segment. lengths: [B] or None, from lengths[b] on y is zero and the state stays.
    segments: [B, T] or None, where their number changes the state before is forgotten. method: see `linear_recurrence`.

    States are float32, and never all there: the backward pass computes those of a piece again (Chen et al. 2016).
    """
    B, T, E = x.shape
    steps = min(PIECE, T) if isinstance(T, int) else 1  # where T is a symbol, as in an export, it cannot be cut into pieces
    parts = [mask_steps(part, lengths).astype(jnp.float32) for part in (x, delta, write, read)]  # delta 0: h stays
    if segments is not None:
        parts.append(segment_starts(segments, lengths)[..., None])

    def cut(part):
        """[B, T, ...] -> [pieces, steps, B, ...]"""
        part = jnp.moveaxis(part, 1, 0)
        if steps == 1:
            return part[:, None]
        return jnp.pad(part, ((0, -T % steps), (0, 0), (0, 0))).reshape(-1, steps, *part.shape[1:])

    def piece(h, now):
        x, delta, write, read, *starts = now  # [S, B, E], [S, B, E], [S, B, N], [S, B, N], [S, B, 1]
        a = jnp.exp(delta[:, :, None] * A.astype(jnp.float32))  # [S, B, N, E]
        if starts:
            a = jnp.where(starts[0][..., None], 0, a)
        states = linear_recurrence(a, (delta * x)[:, :, None] * write[..., None], h, method=method)
        return states[-1], jnp.einsum('sbne,sbn->sbe', states, read)

    state, y = jax.lax.scan(jax.checkpoint(piece, prevent_cse=False), state.astype(jnp.float32), tuple(map(cut, parts)))
    y = y[:, 0] if steps == 1 else y.reshape(-1, B, E)[:T]
    y = jnp.moveaxis(y, 0, 1) + parts[0] * skip.astype(jnp.float32)
    return mask_steps(y, lengths).astype(x.dtype), state
