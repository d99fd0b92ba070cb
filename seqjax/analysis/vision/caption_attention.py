"""Where a captioner looks, word by word (figure 3 of Xu et al. 2015)."""

import numpy as np

from seqjax.analysis import figures
from seqjax.errors import FieldError

COLUMNS = 6


def grid_of(places, height, width):
    """(h, w): how S = h w places lie in an image, in its proportions."""
    h = max((h for h in range(1, places + 1) if places % h == 0), key=lambda h: -abs(np.log(h * h * width / (places * height))))
    return h, places // h


def plot_caption(image, words, weights, path):
    """The image, and for every word the image again with the places that were attended to in red. To a PNG.

    image: [H, W, C] of uint8, or of numbers from 0 to 1. words: [T] texts; weights: [T, S], the places row by row.
    """
    image, weights = np.asarray(image), np.asarray(weights, np.float64)
    if weights.ndim != 2 or len(weights) != len(words) or not weights.size:
        raise FieldError('weights', weights.shape, f'must be [T, S] for {len(words)} words, at least one')
    H, W = image.shape[:2]
    h, w = grid_of(weights.shape[1], H, W)
    shown = image / 255 if image.dtype == np.uint8 else image
    grey = np.clip(shown.mean(axis=-1), 0, 1)
    columns = min(COLUMNS, len(words) + 1)
    rows = -(-(len(words) + 1) // columns)
    figure = figures.new_figure(1.5 * columns, 1.75 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels:
        axes.set_axis_off()
    panels[0].imshow(grey if shown.shape[-1] == 1 else np.clip(shown, 0, 1), cmap='gray', vmin=0, vmax=1, interpolation='nearest')
    for axes, word, of_word in zip(panels[1:], words, weights):
        axes.imshow(grey, cmap='gray', vmin=0, vmax=1, interpolation='nearest', extent=(0, W, H, 0))
        axes.imshow(np.zeros((h, w)), cmap='autumn', vmin=0, vmax=1, alpha=0.8 * of_word.reshape(h, w) / max(of_word.max(), 1e-12),
                    interpolation='nearest', extent=(0, W, H, 0))
        axes.set_title(word, fontsize=9, parse_math=False)
    figures.save(figure, path)
