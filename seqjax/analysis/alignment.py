"""Where a model looked: the attention weights of every target word over the source words, as a picture and as a number."""

import textwrap
import warnings

import numpy as np

from seqjax.analysis import figures
from seqjax.errors import FieldError

LARGEST = 16       # inches; with more words the cells get smaller
LAST_RESORT = 'Last Resort High-Efficiency'  # comes with matplotlib: a box for every character there is


def plot_alignment(weights, source_words, target_words, path, title=''):
    """Source words along the top, target words down the side, the darker a cell the larger its weight. To a PNG.

    As figure 3 of Bahdanau et al. 2015. weights: [T, S], 0..1. source_words, target_words: a piece of text for every token.
    """
    weights, T, S = np.asarray(weights, np.float64), len(target_words), len(source_words)
    if weights.shape != (T, S) or not weights.size:
        raise FieldError('weights', weights.shape, f'must be [T, S] for {T} target and {S} source words, at least one each')
    cell = min(0.26, LARGEST / max(T, S))  # inches
    sources, targets = ([printable(word) for word in words] for words in (source_words, target_words))
    width = max(4, S * cell + 1 + 0.1 * max(map(len, targets)))
    figure = figures.new_figure(width, T * cell + 0.7 + 0.1 * max(map(len, sources)))
    figure.set_layout_engine('compressed')  # as constrained, for cells that must be square
    axes = figure.subplots()
    image = figures.cells(axes, weights, cell, '0.93', cmap='Blues', vmin=0, vmax=1)
    figures.color_bar(axes, image, shrink=min(1, 1.6 / (T * cell)), aspect=12, anchor=(0, 1), ticks=(0, 0.5, 1))
    families = _families(''.join([*sources, *targets, title]))
    look = dict(parse_math=False, family=families, fontsize=min(10, 36 * cell))
    axes.set_xticks(range(S), sources, **look)
    axes.set_yticks(range(T), targets, **look)
    axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False)
    for label in axes.get_xticklabels():
        label.set_rotation(90 if len(label.get_text()) > 1 else 0)
    figure.suptitle(textwrap.fill(title, int(12 * width)), x=0.02, ha='left', fontsize=10, parse_math=False, family=families)
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', message=r'Glyph \d+ .* missing from', category=UserWarning)  # a box stands for it
        figures.save(figure, path)


def printable(word):
    """A word as it can be shown: dots for spaces, for what has no shape, and for nothing at all; a long one without its middle."""
    return figures.short(''.join(c if c.isprintable() and not c.isspace() else '·' for c in word) or '·')


def _families(text):
    """The usual font, and behind it the installed ones that have what it lacks."""
    from matplotlib import font_manager

    missing = {ord(c) for c in text} - _characters(font_manager.findfont(font_manager.FontProperties()))
    fonts = [font for font in font_manager.fontManager.ttflist if (font.style, font.weight) == ('normal', 400)]
    found = {font.name: missing & _characters(font.fname) for font in fonts if missing and font.name != LAST_RESORT}
    families = ['sans-serif']
    for name in sorted(found, key=lambda name: -len(found[name])):
        if missing & found[name]:
            families.append(name)
            missing -= found[name]
    return families


def _characters(path):
    """The code points that a font file has a shape for."""
    from matplotlib import ft2font

    return set(ft2font.FT2Font(path).get_charmap())
