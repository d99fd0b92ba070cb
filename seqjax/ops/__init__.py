"""Arrays in, arrays out: the equations of sequence models, with no parameters and no state."""

from seqjax.ops.attention import attend, causal_mask
from seqjax.ops.losses import cross_entropy
from seqjax.ops.recurrence import lstm_cell, recur

__all__ = ['attend', 'causal_mask', 'cross_entropy', 'lstm_cell', 'recur']
