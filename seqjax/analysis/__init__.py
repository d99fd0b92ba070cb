"""Looking at what a run did, and into what a model does."""

from seqjax.analysis.alignment import monotonicity, plot_alignment
from seqjax.analysis.beam_tree import beam_tree_svg
from seqjax.analysis.comparison import comparison_table, plot_comparison
from seqjax.analysis.confusion import plot_confusion
from seqjax.analysis.cost.complexity import LAYERS, layers_until_seen
from seqjax.analysis.cost.complexity_plots import plot_costs
from seqjax.analysis.cost.depth import sequential_depth
from seqjax.analysis.cost.flops import matmul_flops
from seqjax.analysis.cost.scaling import Case, PowerLaw, fit_power_law, measure
from seqjax.analysis.curves import plot_loss, smooth
from seqjax.analysis.length_curve import plot_quality_by_length
from seqjax.analysis.recurrent.gradient_plots import (
                                                      plot_cell_path,
                                                      plot_gradient_comparison,
                                                      plot_gradients,
                                                      plot_saturation,
                                                      plot_spectrum,
)
from seqjax.analysis.recurrent.gradients import (
                                                      GradientFlow,
                                                      followed_gradient,
                                                      gradient_flow,
                                                      horizon,
                                                      mean_over_rows,
                                                      step_jacobians,
                                                      suggested_clip,
                                                      trajectory,
                                                      verdict,
)
from seqjax.analysis.recurrent.interpretable_cells import correlations, text_features
from seqjax.analysis.recurrent.layers import RecurrentCall, recurrent_layers
from seqjax.analysis.recurrent.loss_gradients import end_gradients
from seqjax.analysis.recurrent.receptive_field import plot_receptive_fields, receptive_fields
from seqjax.analysis.scatter import plot_predictions

__all__ = ['Case', 'GradientFlow', 'LAYERS', 'PowerLaw', 'RecurrentCall', 'beam_tree_svg',
           'comparison_table', 'correlations', 'end_gradients', 'fit_power_law', 'followed_gradient', 'gradient_flow',
           'horizon', 'layers_until_seen', 'matmul_flops', 'mean_over_rows', 'measure', 'monotonicity', 'plot_alignment',
           'plot_cell_path', 'plot_comparison', 'plot_confusion', 'plot_costs', 'plot_gradient_comparison',
           'plot_gradients', 'plot_loss', 'plot_predictions', 'plot_quality_by_length', 'plot_receptive_fields',
           'plot_saturation', 'plot_spectrum', 'receptive_fields', 'recurrent_layers',
           'sequential_depth', 'smooth', 'step_jacobians', 'suggested_clip', 'text_features', 'trajectory',
           'verdict']
