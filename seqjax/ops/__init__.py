"""Arrays in, arrays out: the equations of sequence models, with no parameters and no state."""

from seqjax.ops.attention import attend, causal_mask
from seqjax.ops.cell_names import CELLS, make_cell
from seqjax.ops.cells import (LSTM, Cell, CoupledLSTM, Elman, GRU, LayerNormLSTM, Orthogonal, PeepholeLSTM, ProjectedLSTM,
                              ResetBeforeGRU)
from seqjax.ops.crf import Transitions, crf_decode, crf_log_likelihood, crf_log_partition, crf_marginals
from seqjax.ops.linear_cells import LRU, MinGRU, MinLSTM
from seqjax.ops.linear_recurrence import linear_recurrence
from seqjax.ops.losses import cross_entropy
from seqjax.ops.lstm_step import lstm_step_backward, lstm_step_forward
from seqjax.ops.pooling import last_step, mask_steps, max_step, mean_step, valid_steps
from seqjax.ops.positions import same_segment, sinusoidal_positions, steps_of_segments
from seqjax.ops.recurrence import advance, gates, recur

__all__ = ['CELLS', 'Cell', 'CoupledLSTM', 'Elman', 'GRU', 'LRU', 'LSTM', 'LayerNormLSTM', 'MinGRU', 'MinLSTM', 'Orthogonal',
           'PeepholeLSTM', 'ProjectedLSTM', 'ResetBeforeGRU', 'Transitions', 'advance', 'attend', 'causal_mask',
           'crf_decode', 'crf_log_likelihood', 'crf_log_partition', 'crf_marginals', 'cross_entropy', 'gates', 'last_step',
           'linear_recurrence', 'lstm_step_backward', 'lstm_step_forward', 'make_cell', 'mask_steps', 'max_step',
           'mean_step', 'recur', 'same_segment', 'sinusoidal_positions', 'steps_of_segments', 'valid_steps']
