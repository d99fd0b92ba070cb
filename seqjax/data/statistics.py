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
    count, mean, squares, low, high = 0, 0.0, 0.0, np.inf, -np.inf
    for i in chosen.tolist():
        record = records[i]
        if record.weight:
            pixels = np.asarray(record.inputs)
            scale = 255.0 if pixels.dtype == np.uint8 else 1.0
            flat = pixels.reshape(-1, pixels.shape[-1]).astype(np.float64) / scale
            low, high = np.minimum(low, flat.min(axis=0)), np.maximum(high, flat.max(axis=0))
            # Differences to the mean, added up as Chan et al. 1979 do it: E[x^2] - E[x]^2 loses the digits of a small deviation.
            n, own = len(flat), flat.mean(axis=0)
            squares = squares + ((flat - own) ** 2).sum(axis=0) + (own - mean) ** 2 * (count * n / (count + n))
            mean, count = mean + (own - mean) * (n / (count + n)), count + n
    deviation = np.where(high > low, np.sqrt(squares / count), 1.0)
    return tuple(mean.tolist()), tuple(deviation.tolist())
