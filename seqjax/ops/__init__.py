"""Arrays in, arrays out: the equations of sequence models, with no parameters and no state."""

from seqjax.ops.attention.linear import linear_attend, linear_attend_step, linear_state
from seqjax.ops.attention.masks import Mask
from seqjax.ops.attention.positions import (alibi_bias, alibi_slopes, relative_buckets, rotary_rates, rotate,
                                            sinusoidal_positions, steps_of_segments)
from seqjax.ops.attention.scores import (additive_scores, attend, bilinear_scores, dot_scores, hard_weights,
                                         scaled_dot_scores, soft_weights, weigh)
from seqjax.ops.batch_norm import batch_norm, batch_statistics, update_running
from seqjax.ops.contrastive import clip_loss, dino_loss, dino_targets, nt_xent, unit_length
from seqjax.ops.augmentation.mixing import mixes
from seqjax.ops.augmentation.pipeline import AUGMENTATIONS, Augmentation
from seqjax.ops.augmentation.pixels import standardise, unit_range
from seqjax.ops.crf import Transitions, crf_decode, crf_log_likelihood, crf_log_partition, crf_marginals
from seqjax.ops.experts import mix_experts
from seqjax.ops.interpolation import resize_bicubic
from seqjax.ops.logical_axes import constrain, mean_over_rows, on_every_device, use_layout, use_mapped_axis
from seqjax.ops.losses import cross_entropy
from seqjax.ops.pooling import last_step, mask_steps, max_step, mean_step, valid_steps
from seqjax.ops.quantisation import EIGHT_BITS, Quantised, multiply_quantised, quantise
from seqjax.ops.recurrence.cell import Cell, Weight, part, select_rows
from seqjax.ops.recurrence.cell_names import CELLS, make_cell
from seqjax.ops.recurrence.cells import (GRU, LSTM, CoupledLSTM, Elman, LayerNormLSTM, Orthogonal, PeepholeLSTM,
                                         ProjectedLSTM, ResetBeforeGRU)
from seqjax.ops.recurrence.engine import advance, gates, recur
from seqjax.ops.recurrence.linear_cells import LRU, MinGRU, MinLSTM
from seqjax.ops.recurrence.linear_scan import linear_recurrence
from seqjax.ops.recurrence.lstm_step import lstm_step_backward, lstm_step_forward
from seqjax.ops.recurrence.selective_state_space import selective_scan, selective_state
from seqjax.ops.recurrence.token_shift import earlier_step, last_inputs, segment_starts
from seqjax.ops.recurrence.wkv_operator import wkv, wkv_state

__all__ = ['AUGMENTATIONS', 'Augmentation', 'CELLS', 'Cell', 'CoupledLSTM', 'EIGHT_BITS', 'Elman', 'GRU',
           'LRU', 'LSTM', 'LayerNormLSTM', 'Mask', 'MinGRU', 'MinLSTM', 'Orthogonal', 'PeepholeLSTM',
           'ProjectedLSTM', 'Quantised', 'ResetBeforeGRU', 'Transitions', 'Weight', 'additive_scores',
           'advance', 'alibi_bias', 'alibi_slopes', 'attend', 'batch_norm', 'batch_statistics',
           'bilinear_scores', 'clip_loss', 'constrain', 'crf_decode', 'crf_log_likelihood',
           'crf_log_partition', 'crf_marginals', 'cross_entropy', 'dino_loss', 'dino_targets', 'dot_scores',
           'earlier_step', 'gates', 'hard_weights', 'last_inputs', 'last_step', 'linear_attend',
           'linear_attend_step', 'linear_recurrence', 'linear_state', 'lstm_step_backward',
           'lstm_step_forward', 'make_cell', 'mask_steps', 'max_step', 'mean_over_rows', 'mean_step',
           'mix_experts', 'mixes', 'multiply_quantised', 'nt_xent', 'on_every_device', 'part', 'quantise',
           'recur', 'relative_buckets', 'resize_bicubic', 'rotary_rates', 'rotate', 'scaled_dot_scores',
           'segment_starts', 'select_rows', 'selective_scan', 'selective_state', 'sinusoidal_positions',
           'soft_weights', 'standardise', 'steps_of_segments', 'unit_length', 'unit_range', 'update_running',
           'use_layout', 'use_mapped_axis', 'valid_steps', 'weigh', 'wkv', 'wkv_state']
