"""Attention as the kernels of accelerators compute it: cuDNN's on Nvidia GPUs, and splash attention on TPUs.

Each has a function that says whether it can, for it knows fewer masks than `blockwise`, no bias by distance and no dropout.
Shapes: B rows, T queries, S keys, H heads of queries, G heads of keys, K width of both.
"""

import functools

import jax
import jax.numpy as jnp

from seqjax.ops.attention.masks import Mask
from seqjax.ops.logical_axes import current_layout, on_every_device, use_layout

LANES = 128  # a TPU computes with so many numbers at once: the kernel wants T and S in multiples of it
BLOCKS = LANES, 2 * LANES, 4 * LANES  # steps in a block: the largest that divides
NOBODY = -2 ** 31  # the id of keys that no query sees


def cudnn_can(query, key, value, mask, bias, dropout):
    """Whether this machine has cuDNN, and it computes the same."""
    return (_kernels_can(query, key, mask, bias, dropout) and mask.segments is None and (mask.causal or not mask.window)
            and query.dtype in (jnp.bfloat16, jnp.float16) and key.shape == value.shape
            and (query.shape[1] == key.shape[1] or not mask.causal)
            and query.shape[3] % 8 == 0 and query.shape[3] <= 128 and on_nvidia())


def splash_can(query, key, value, mask, bias, dropout):
    """Whether splash attention computes the same. For fewer than `LANES` queries most of it would be padding."""
    return _kernels_can(query, key, mask, bias, dropout) and (mask.segments is None or mask.lengths is None)


def cudnn(query, key, value, mask, *, scale, **unused):
    """`attend` by cuDNN's flash attention. query: [B, T, H, K]; key, value: [B, S, G, K]."""
    lengths = None if mask.lengths is None else jnp.maximum(mask.lengths, 1).astype(jnp.int32)
    window = (mask.window - 1, 0) if mask.window else None
    out = jax.nn.dot_product_attention(query, key, value, scale=scale, is_causal=mask.causal, local_window_size=window,
                                       key_value_seq_lengths=lengths, implementation='cudnn')
    return _without_empty_rows(out, mask)


def splash(query, key, value, mask, *, scale, interpret=False, **unused):
    """`attend` by the Pallas kernel that comes with jax. On a mesh every device computes its own rows and heads.

    interpret: run it without a TPU, for tests.
    """
    return _splash(query, key, value, mask, scale, interpret, current_layout())


# Traced once for all layers of one shape.
@functools.partial(jax.jit, static_argnames=('scale', 'interpret', 'layout'))
def _splash(query, key, value, mask, scale, interpret, layout):
    query_ids, key_ids = _ids(query, key, mask)
    query = (query.astype(jnp.float32) * scale).astype(query.dtype)
    ids = (None if ids is None else _pad(ids, NOBODY) for ids in (query_ids, key_ids))
    arguments = *map(_pad, (query, key, value)), *ids
    steps, array = ('batch', None), ('batch', None, 'heads', None)
    run = functools.partial(_on_one_device, mask.causal, mask.window, interpret)
    with use_layout(layout):  # XLA cuts all but kernels along a mesh by itself
        out = on_every_device(run, arguments, (array, array, array, steps, steps), array)
    return _without_empty_rows(out[:, :query.shape[1]], mask)


def _on_one_device(causal, window, interpret, query, key, value, query_ids, key_ids):
    """On one device, with T and S in multiples of `LANES`: a query sees the keys of its own id that the mask allows."""
    from jax.experimental.pallas.ops.tpu import splash_attention as library  # here: on a CPU it is a second for nothing

    T, S, H = query.shape[1], key.shape[1], query.shape[2]
    low, high = Mask(causal=causal, window=window).reach
    if low is None and high is None:
        seen = library.FullMask((T, S))
    else:
        seen = library.LocalMask((T, S), (None if low is None else -low, high), 0)
    t, s = (max(size for size in BLOCKS if steps % size == 0) for steps in (T, S))
    blocks = library.BlockSizes(block_q=t, block_kv=s, block_kv_compute=s, block_q_dkv=t, block_kv_dkv=s,
                                block_kv_dkv_compute=s, block_q_dq=t, block_kv_dq=s)
    kernel = library.make_splash_mha_single_device(library.MultiHeadMask([seen] * H), block_sizes=blocks, interpret=interpret)
    ids = None if query_ids is None else library.SegmentIds(query_ids, key_ids)
    heads_first = (x.swapaxes(1, 2) for x in (query, key, value))
    return jax.vmap(kernel)(*heads_first, ids).swapaxes(1, 2)


def _ids(query, key, mask):
    """[B, T] and [B, S], or None twice where the mask needs no numbers to tell whom a key is for."""
    (B, T), S = query.shape[:2], key.shape[1]
    if mask.segments is not None:
        return mask.segments, mask.segments
    if mask.lengths is None and (S % LANES == 0 or mask.causal and T <= S):
        return None, None
    lengths = jnp.full((B, 1), S) if mask.lengths is None else jnp.maximum(mask.lengths, 1)[:, None]
    return jnp.zeros((B, T), jnp.int32), jnp.where(jnp.arange(S) < lengths, 0, NOBODY)


def _pad(x, fill=0):
    """[B, steps, ...] with steps made a multiple of `LANES`."""
    return jnp.pad(x, ((0, 0), (0, -x.shape[1] % LANES)) + ((0, 0),) * (x.ndim - 2), constant_values=fill)


def _kernels_can(query, key, mask, bias, dropout):
    """What both kernels leave to others; among it queries with a window that reaches past the last key, and see nothing."""
    if not isinstance(mask, Mask):
        return False
    within = query.shape[1] <= key.shape[1] and mask.lengths is None
    return (bias is None and not dropout and mask.prefix is None and mask.start is None and (within or not mask.window)
            and query.shape[1] >= LANES)


def _without_empty_rows(out, mask):
    """The kernels were told that a row of length 0 has one key."""
    return out if mask.lengths is None else jnp.where((mask.lengths > 0)[:, None, None, None], out, 0)


def on_nvidia():
    return jax.default_backend() == 'gpu' and 'cuda' in jax.devices()[0].client.platform_version.lower()
