"""Predicted numbers against true ones."""

import numpy as np

from seqjax.analysis import figures
from seqjax.errors import FieldError
from seqjax.metrics import correlation

MOST_POINTS = 2000  # more of them are counted in hexagons


def plot_predictions(predictions, targets, path, unit=''):
    """One point a row, targets to the right and predictions up, over the line where they are equal. To a PNG.

    predictions, targets: [N]. unit: what they are measured in. Pairs that are not finite are not drawn, but counted.
    """
    predictions, targets = np.asarray(predictions, np.float64), np.asarray(targets, np.float64)
    if predictions.ndim != 1 or predictions.shape != targets.shape:
        raise FieldError('predictions', predictions.shape, f'must be [N], as targets are, which have shape {targets.shape}')
    finite = np.isfinite(predictions) & np.isfinite(targets)
    x, y = targets[finite], predictions[finite]
    figure = figures.new_figure(5.6 if len(x) > MOST_POINTS else 5, 5)
    axes = figures.tidy(figure.subplots())
    low, high = _limits(x, y)
    if len(x) > MOST_POINTS:
        cells = axes.hexbin(x, y, gridsize=50, extent=(low, high, low, high), mincnt=1, bins='log', cmap='viridis_r',
                            linewidths=0.2)
        figures.color_bar(axes, cells, 'rows', shrink=0.6, aspect=18)
    else:
        axes.scatter(x, y, s=16, alpha=0.4, color='tab:blue', linewidths=0)
    axes.axline((low, low), slope=1, color='tab:orange', linewidth=1.5)
    axes.annotate('prediction = target', (1, 1), xycoords='axes fraction', xytext=(-18, -4), textcoords='offset points',
                  ha='right', va='top', fontsize=8, color='tab:orange')
    of = f' ({unit})' if unit else ''
    axes.set(xlim=(low, high), ylim=(low, high), aspect='equal', xlabel=f'target{of}', ylabel=f'prediction{of}')
    axes.set_title(_summary(predictions, targets, finite), loc='left', fontsize=10)
    figures.save(figure, path)


def _limits(x, y):
    """The same for both axes, with a little room."""
    both = np.concatenate((x, y))
    low, high = (both.min(), both.max()) if len(both) else (0.0, 1.0)
    room = 0.04 * (high - low) or 0.5
    return low - room, high + room


def _summary(predictions, targets, finite):
    counts = f'{len(finite):,} rows' + (f', {(~finite).sum():,} of them not finite' if not finite.all() else '')
    x, y = predictions[finite], targets[finite]
    return f'Spearman {correlation.spearman(x, y):.3f}, Pearson {correlation.pearson(x, y):.3f}, {counts}'
