"""Looking at what a run did, and into what a model does."""

from seqjax.analysis.alignment import monotonicity, plot_alignment
from seqjax.analysis.baselines import baseline_scores
from seqjax.analysis.beam_tree import beam_tree_svg
from seqjax.analysis.comparison import comparison_table, plot_comparison
from seqjax.analysis.complexity import LAYERS, layers_until_seen
from seqjax.analysis.complexity_plots import plot_costs
from seqjax.analysis.confusion import plot_confusion
from seqjax.analysis.cost import matmul_flops
from seqjax.analysis.curves import plot_loss, smooth
from seqjax.analysis.depth import sequential_depth
from seqjax.analysis.gradient_plots import (plot_cell_path, plot_gradient_comparison, plot_gradients, plot_saturation,
                                            plot_spectrum)
from seqjax.analysis.gradients import (GradientFlow, followed_gradient, gradient_flow, horizon, mean_over_rows,
                                       step_jacobians, suggested_clip, trajectory, verdict)
from seqjax.analysis.interpretable_cells import correlations, text_features
from seqjax.analysis.layers import RecurrentCall, recurrent_layers
from seqjax.analysis.length_curve import plot_quality_by_length
from seqjax.analysis.loss_gradients import end_gradients
from seqjax.analysis.receptive_field import plot_receptive_fields, receptive_fields
from seqjax.analysis.scaling import Case, PowerLaw, fit_power_law, measure
from seqjax.analysis.scatter import plot_predictions
from seqjax.analysis.translation_scores import has_four_words, scores_by_length, translation_scores

__all__ = ['Case', 'GradientFlow', 'LAYERS', 'PowerLaw', 'RecurrentCall', 'baseline_scores', 'beam_tree_svg',
           'comparison_table', 'correlations', 'end_gradients', 'fit_power_law', 'followed_gradient', 'gradient_flow',
           'has_four_words', 'horizon', 'layers_until_seen', 'matmul_flops', 'mean_over_rows', 'measure', 'monotonicity', 'plot_alignment',
           'plot_cell_path', 'plot_comparison', 'plot_confusion', 'plot_costs', 'plot_gradient_comparison',
           'plot_gradients', 'plot_loss', 'plot_predictions', 'plot_quality_by_length', 'plot_receptive_fields',
           'plot_saturation', 'plot_spectrum', 'receptive_fields', 'recurrent_layers', 'scores_by_length',
           'sequential_depth', 'smooth', 'step_jacobians', 'suggested_clip', 'text_features', 'trajectory',
           'translation_scores', 'verdict']
