"""What came before a step: across the end of a call, and not across that of a segment.

Shapes: B rows, T steps, K steps that are remembered, D width. `past` [B, K, D] are the last inputs of the call before, zeros
before the first; they belong to the first segment of a row.
"""

import jax.numpy as jnp

from seqjax.ops.pooling import last_step, valid_steps


def segment_starts(segments, lengths=None, reverse=False):
    """[B, T], True where the segment is another than at the step before. In padding nothing begins, nor at the first step.

    reverse: rows are read from their ends, and the step before is the one to the right.
    """
    changed = segments[:, 1:] != segments[:, :-1]
    if lengths is not None:
        changed = changed & valid_steps(lengths, segments.shape[1])[:, 1:]
    return jnp.pad(changed, ((0, 0), (0, 1) if reverse else (1, 0)))


def earlier_step(x, past, by=1, segments=None):
    """x_{t - by}, [B, T, D], and zeros where that is in another segment. x: [B, T, D]; by: 1 to K."""
    (_, T, _), K = x.shape, past.shape[1]
    moved = jnp.concatenate((past.astype(x.dtype), x), axis=1)[:, K - by:K - by + T]
    if segments is None:
        return moved
    theirs = _with_past(segments, by)[:, :T]
    return jnp.where((theirs == segments)[..., None], moved, 0)


def last_inputs(x, past, lengths=None, *, segments=None):
    """The past of the next call, [B, K, D]: what came last, of the past and the first lengths[b] steps of x, in its segment."""
    B, T, _ = x.shape
    K, whole = past.shape[1], jnp.concatenate((past.astype(x.dtype), x), axis=1)
    if segments is not None:
        of = _with_past(segments, K)
        last = segments[:, -1:] if lengths is None else last_step(of[..., None], lengths + K)
        whole = jnp.where((of == last)[..., None], whole, 0)
    if lengths is None:
        return whole[:, T:]
    return jnp.take_along_axis(whole, (lengths[:, None] + jnp.arange(K))[..., None], axis=1)


def _with_past(segments, K):
    return jnp.pad(segments, ((0, 0), (K, 0)), mode='edge')  # [B, K + T]
