"""What all plots share: one look, and files that are whole or not there."""

import os
import pathlib

import numpy as np

LONGEST_NAME = 24  # characters


def new_figure(width, height):
    import matplotlib.figure  # here, because it takes a second to import

    return matplotlib.figure.Figure(figsize=(width, height), layout='constrained')


def tidy(axes):
    """Only the two lines that carry numbers, and a faint grid."""
    axes.spines[['top', 'right']].set_visible(False)
    axes.grid(alpha=0.2)
    return axes


def whole_numbers(axis):
    """Ticks of an axis of steps, lengths or counts: none between two of them, however few there are."""
    axis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def cells(axes, values, side, lines, **look):
    """The image of a matrix, with lines of that color between its cells. side: of a cell, in inches."""
    image = axes.imshow(values, interpolation='nearest', **look)
    for set_ticks, count in zip((axes.set_yticks, axes.set_xticks), values.shape):
        set_ticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which='minor', color=lines, linewidth=min(1, 4 * side))
    axes.tick_params(which='both', length=0)
    axes.spines[:].set_visible(False)
    return image


def color_bar(axes, drawn, label='', **look):
    """The scale of the colors of what was drawn, beside it."""
    bar = axes.figure.colorbar(drawn, ax=axes, **look)
    bar.set_label(label, fontsize=9)
    bar.ax.tick_params(labelsize=8, length=0)
    bar.outline.set_visible(False)


def short(name):
    """A long name without its middle: names that share one often differ at the end."""
    return name if len(name) <= LONGEST_NAME else f'{name[:LONGEST_NAME - 10]}…{name[-9:]}'


def save(figure, path):
    """Writes a PNG; who reads `path` meanwhile sees the one before."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix('.writing.png')
    figure.savefig(beside, dpi=120)
    os.replace(beside, path)


def label_ends(axes, ends, gap=0.045):
    """Writes names beside the right ends of curves, moved apart where they would touch. ends: [(name, y, color)]."""
    bottom, top = axes.get_ylim()
    ends = sorted(ends, key=lambda end: -end[1])
    places = [(min(max(y, bottom), top) - bottom) / (top - bottom) for _, y, _ in ends]  # in parts of the height
    for i in range(1, len(places)):
        places[i] = min(places[i], places[i - 1] - gap)
    floor = 0.0
    for i in reversed(range(len(places))):
        places[i] = max(places[i], floor)
        floor = places[i] + gap
    for (name, _, color), place in zip(ends, places):
        axes.annotate(name, (1, place), xycoords='axes fraction', xytext=(6, 0), textcoords='offset points', color=color,
                      va='center', fontsize=9, annotation_clip=False)
