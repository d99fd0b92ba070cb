"""Looking at what a run did, and into what a model does."""

from seqjax import lazy

__getattr__, __dir__, __all__ = lazy.names(__name__, {
    'alignment': ('plot_alignment',),
    'beam_tree': ('beam_tree_svg',),
    'comparison': ('comparison_table', 'plot_comparison'),
    'confusion': ('plot_confusion',),
    'cost.complexity': ('LAYERS', 'layers_until_seen'),
    'cost.complexity_plots': ('plot_costs',),
    'cost.depth': ('sequential_depth',),
    'cost.flops': ('matmul_flops',),
    'cost.scaling': ('Case', 'PowerLaw', 'fit_power_law', 'measure'),
    'curves': ('plot_loss', 'smooth'),
    'label_curve': ('label_curves', 'plot_accuracy_by_labels'),
    'length_curve': ('plot_quality_by_length',),
    'recurrent.gradient_plots': ('plot_cell_path', 'plot_gradient_comparison', 'plot_gradients',
                                'plot_saturation', 'plot_spectrum'),
    'recurrent.gradients': ('GradientFlow', 'followed_gradient', 'gradient_flow', 'horizon',
                           'mean_over_rows', 'step_jacobians', 'suggested_clip', 'trajectory',
                           'verdict'),
    'recurrent.interpretable_cells': ('correlations', 'text_features'),
    'recurrent.layers': ('RecurrentCall', 'recurrent_layers'),
    'recurrent.loss_gradients': ('end_gradients',),
    'recurrent.receptive_field': ('plot_receptive_fields', 'receptive_fields'),
    'scatter': ('plot_predictions',),
    'vision.attention_maps': ('attention_weights', 'cls_attention', 'plot_attention'),
    'vision.class_activation': ('class_activation',),
    'vision.depth_gradients': ('DepthGradients', 'depth_gradients', 'plot_depth_gradients'),
    'vision.feature_map': ('plot_features', 'plot_patches', 'principal_components'),
})
