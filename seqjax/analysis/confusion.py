"""The confusion matrix as a picture: what was taken for what."""

import math

import numpy as np

from seqjax.analysis import figures
from seqjax.errors import FieldError
from seqjax.metrics import classification

WITH_COUNTS = 20   # up to so many classes, the counts are written into the cells
LARGEST = 16       # inches; with more classes the cells get smaller, and not every one has its name


def plot_confusion(counts, names, path, title=''):
    """Rows are the truth, columns the answers, a cell's colour its part of the row: recall is on the diagonal. To a PNG.

    counts: [C, C]. names: of the classes, in their order. The row of a class without examples is gray.
    """
    import matplotlib
    import matplotlib.colors

    counts, C = np.asarray(counts), len(names)
    if counts.shape != (C, C):
        raise FieldError('counts', counts.shape, f'must be [C, C] for the {C} classes that are named')
    side = min(LARGEST, max(2.4, C * (0.46 if C <= WITH_COUNTS else 0.22)))  # of the matrix, in inches
    figure = figures.new_figure(side + 2.2, side + 1.4)
    axes = figure.subplots()
    # By the square root, because the confusions that are worth seeing are a few percent of their row.
    image = figures.cells(axes, _parts(counts), side / C, 'white', norm=matplotlib.colors.PowerNorm(0.5, 0, 1),
                          cmap=matplotlib.colormaps['Blues'].with_extremes(bad='0.9'))
    figures.color_bar(axes, image, 'part of the row', shrink=min(1, 3 / side), aspect=18, anchor=(0, 1),
                      ticks=(0, 0.05, 0.25, 0.5, 1), format=lambda part, _: f'{part:.0%}')
    _name_ticks(axes, names, side / C)
    if C <= WITH_COUNTS:
        _write_counts(axes, counts)
    axes.set(xlabel='answer', ylabel='truth')
    axes.set_title('\n'.join(filter(None, (title, _summary(counts)))), loc='left', fontsize=10, parse_math=False)
    figures.save(figure, path)


def _parts(counts):
    """Every row divided by its sum, NaN where that is 0."""
    totals = counts.sum(axis=1, keepdims=True, dtype=np.float64)
    return np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)


def _name_ticks(axes, names, cell):
    """Names along both axes, upright below where they are wider than a cell. cell: its side, in inches."""
    every = math.ceil(0.15 / cell)  # so that names do not touch
    size, shown = 9 if len(names) <= WITH_COUNTS else 8, [figures.short(str(name)) for name in names]
    rotation = 90 if 0.085 * max(map(len, shown)) > cell else 0
    places = np.arange(0, len(names), every)
    axes.set_xticks(places, shown[::every], fontsize=size, rotation=rotation, parse_math=False)
    axes.set_yticks(places, shown[::every], fontsize=size, parse_math=False)


def _write_counts(axes, counts):
    parts = _parts(counts)
    for row, column in np.argwhere(counts > 0):
        axes.text(column, row, _short_count(counts[row, column]), ha='center', va='center', fontsize=8,
                  color='white' if parts[row, column] > 0.4 else '0.15')
    for row in np.flatnonzero(counts.sum(axis=1) == 0):
        axes.text((len(counts) - 1) / 2, row, 'no examples', ha='center', va='center', fontsize=8, color='0.4')


def _short_count(count):
    """At most five characters: 9999, 12k, 3.4M."""
    for limit, scale, digits, sign in ((9_999.5, 1, 0, ''), (999_500, 1e3, 0, 'k'), (99_950_000, 1e6, 1, 'M')):
        if count < limit:
            return f'{count / scale:.{digits}f}{sign}'
    return f'{count / 1e6:.0f}M'


def _summary(counts):
    if not counts.any():
        return 'no examples'
    return f'accuracy {classification.accuracy(counts):.1%}, macro-F1 {classification.macro_f1(counts):.3f}'
