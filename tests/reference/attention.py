"""Attention, one query of one head at a time."""

import numpy as np


def attend(query, key, value, mask):
    """[B, T, H, K] from query [B, T, H, K], key and value [B, S, H, K] and mask [B, H, T, S], in float64."""
    query, key, value = (np.asarray(x, np.float64) for x in (query, key, value))
    B, T, H, K = query.shape
    result = np.zeros(query.shape)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                seen = np.flatnonzero(mask[b, h, t])
                if not len(seen):
                    continue
                weights = np.exp([query[b, t, h] @ key[b, s, h] / K ** 0.5 for s in seen])
                result[b, t, h] = weights / weights.sum() @ value[b, seen, h]
    return result
