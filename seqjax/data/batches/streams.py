"""Batches of parallel streams, for training with a state that is carried from batch to batch.

The text is cut into as many streams as a batch has rows, and row b of a batch goes on where row b of the batch before
ended. `starts` [B] is 1 where a stream begins again, so that a recurrent model knows when to forget: truncated
backpropagation through time (Williams & Peng 1990), with the state carried on as in Mikolov et al. 2010.
"""

import grain
import numpy as np

from seqjax.data.batches.per_process import ENDLESS, evaluated, per_process
from seqjax.data.batches.windows import Windows, check_length
from seqjax.errors import FieldError


def training_streams(tokens, *, batch_size, sequence_length, seed, process=0, processes=1):
    """An endless grain dataset: element `step` is this process's rows of the global batch of that step.

    An epoch reads every stream from its beginning to its end. Where its length is no multiple of the window's, the
    place of the first window is drawn anew each epoch from (seed, epoch).
    """
    predictions = (len(tokens) - 1) // batch_size  # of one stream
    windows = predictions // sequence_length
    if not windows:
        raise FieldError('data.sequence_length', sequence_length,
                         f'the training text has only {len(tokens)} tokens, which gives each of the {batch_size} rows a '
                         f'stream of {max(0, predictions)}; use a longer text, a smaller batch or a shorter sequence')
    text = Windows(tokens, sequence_length)

    def row(i):
        step, b = divmod(int(i), batch_size)
        epoch, window = divmod(step, windows)
        offset = np.random.default_rng((seed, epoch)).integers(predictions - windows * sequence_length + 1)
        return {**text.at(b * predictions + offset + window * sequence_length), 'starts': np.float32(window == 0)}

    return per_process(grain.MapDataset.range(ENDLESS).map(row), batch_size, process, processes)


def evaluation_streams(tokens, *, batch_size, sequence_length, limit=0, process=0, processes=1):
    """Every held-out token once, in streams that are read from zero; what fills up the last batch has weight 0."""
    check_length(Windows(tokens, sequence_length), 'held-out')
    T = sequence_length
    total = len(tokens) - 1
    predictions = -(-total // batch_size)  # of one stream; the last may have fewer

    def row(i):
        step, b = divmod(i, batch_size)
        start, end = b * predictions + step * T, min((b + 1) * predictions, total)
        window = tokens[start:max(start, min(start + T, end)) + 1]
        counted = max(0, len(window) - 1)
        filled = np.zeros(T + 1, tokens.dtype)
        filled[:len(window)] = window
        return dict(inputs=filled[:-1], targets=filled[1:], weights=(np.arange(T) < counted).astype(np.float32),
                    starts=np.float32(step == 0))

    return evaluated(row, -(-predictions // T) * batch_size, batch_size, limit, process, processes)
