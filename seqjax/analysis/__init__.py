"""Looking at what a run did, and into what a model does."""

from seqjax.analysis.baselines import baseline_scores
from seqjax.analysis.comparison import comparison_table, plot_comparison
from seqjax.analysis.confusion import plot_confusion
from seqjax.analysis.cost import matmul_flops
from seqjax.analysis.curves import plot_loss, smooth
from seqjax.analysis.gradient_plots import (plot_cell_path, plot_gradient_comparison, plot_gradients, plot_saturation,
                                            plot_spectrum)
from seqjax.analysis.gradients import (GradientFlow, followed_gradient, gradient_flow, horizon, mean_over_rows,
                                       step_jacobians, suggested_clip, trajectory, verdict)
from seqjax.analysis.interpretable_cells import correlations, text_features
from seqjax.analysis.layers import RecurrentCall, recurrent_layers
from seqjax.analysis.loss_gradients import end_gradients
from seqjax.analysis.receptive_field import plot_receptive_fields, receptive_fields
from seqjax.analysis.scatter import plot_predictions

__all__ = ['GradientFlow', 'RecurrentCall', 'baseline_scores', 'comparison_table', 'correlations', 'end_gradients',
           'followed_gradient', 'gradient_flow', 'horizon', 'matmul_flops', 'mean_over_rows', 'plot_cell_path',
           'plot_comparison', 'plot_confusion', 'plot_gradient_comparison', 'plot_gradients', 'plot_loss',
           'plot_predictions', 'plot_receptive_fields', 'plot_saturation', 'plot_spectrum', 'receptive_fields',
           'recurrent_layers', 'smooth', 'step_jacobians', 'suggested_clip', 'text_features', 'trajectory', 'verdict']
