"""Mean and standard deviation of every channel or feature, by which inputs are normalised."""

from collections.abc import Sequence

import numpy as np

from seqjax.data.readers.examples import Example

IMAGES = 2048  # that statistics of pixels are taken from, evenly spread: more of them change the third digit


def channel_statistics(records: Sequence[Example], most: int = 0) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(means, standard deviations) over all but the last axis of the inputs, those of 8 bits as numbers from 0 to 1.

    Args:
        records: of the training part; those of weight 0 are left out.
        most: so many of them at most, evenly spread; 0: all. A channel that never changes has deviation 1.
    """
    chosen = np.unique(np.linspace(0, len(records) - 1, min(len(records), most or len(records))).astype(int))
    count, total, squares = 0, 0.0, 0.0
    for i in chosen.tolist():
        record = records[i]
        if record.weight:
            pixels = np.asarray(record.inputs)
            scale = 255.0 if pixels.dtype == np.uint8 else 1.0
            flat = pixels.reshape(-1, pixels.shape[-1]).astype(np.float64) / scale
            count, total, squares = count + len(flat), total + flat.sum(axis=0), squares + (flat ** 2).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean ** 2, 0))
    return tuple(mean.tolist()), tuple(np.where(deviation > 1e-12, deviation, 1.0).tolist())
