"""How features lie: their two largest principal components in a plane, a color a class; and those of patches, as colors.

    PCA: x - mean = U S V^T,      coordinates of a row: its first columns of U S
"""

from collections.abc import Mapping, Sequence
import math
from typing import Any

import numpy as np

from seqjax.analysis import figures

MOST_POINTS = 3000


def principal_components(features: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """([N, count], [count]): coordinates along the directions of largest variance, and their part of all variance.

    The sign of a direction is the one that makes its largest loading positive, so that a picture does not depend on the solver.
    """
    x = np.asarray(features, np.float64)
    x = x - x.mean(axis=0)
    _, sizes, directions = np.linalg.svd(x, full_matrices=False)
    directions = directions[:count] * np.sign(np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], 1))[:count]
    total = (sizes ** 2).sum()
    return x @ directions.T, sizes[:count] ** 2 / total if total else np.zeros(min(count, len(sizes)))


def plot_features(sets: Mapping[str, np.ndarray], targets: np.ndarray, classes: Sequence[str], path: Any) -> None:
    """A panel for each set of features [N, D] of the same rows, by name, as 'pixels', 'random', 'trained'. To a PNG.

    targets: [N], numbers of `classes`. At most MOST_POINTS rows are drawn, the first ones.
    """
    import matplotlib

    figure = figures.new_figure(3.6 * len(sets) + 1.2, 3.8)
    colors, targets = matplotlib.colormaps['tab10' if len(classes) <= 10 else 'turbo'], np.asarray(targets)[:MOST_POINTS]
    shade = lambda number: colors(number if len(classes) <= 10 else number / max(1, len(classes) - 1))
    panels = figure.subplots(1, len(sets), squeeze=False)[0]
    for axes, (name, features) in zip(panels, sets.items()):
        places, parts = principal_components(np.asarray(features)[:MOST_POINTS])
        for number, label in enumerate(classes):
            chosen = places[targets == number]
            axes.scatter(chosen[:, 0], chosen[:, 1], s=5, alpha=0.6, linewidths=0, color=shade(number), label=figures.short(str(label)))
        axes.set_title(f'{name}: {parts.sum():.0%} of the variance', loc='left', fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    if len(classes) <= 20:
        figure.legend(*panels[-1].get_legend_handles_labels(), loc='outside right center', fontsize=8, markerscale=3, frameon=False)
    figures.save(figure, path)


def plot_patches(images: np.ndarray, tokens: np.ndarray, path: Any) -> None:
    """Images, and below each its patches in the colors of their three largest principal components over all images. To a PNG.

    images: [B, H, W, C]. tokens: [B, h w, D], the features of patches, row by row. Patches of one color have alike features.
    """
    B, count, D = tokens.shape
    places, _ = principal_components(np.reshape(tokens, (-1, D)), 3)
    low, high = np.percentile(places, [1, 99], axis=0)
    colors = np.clip((places - low) / np.maximum(high - low, 1e-12), 0, 1)
    side = math.isqrt(count)
    figure = figures.new_figure(1.1 * B, 2.4)
    for column, image, patches in zip(figure.subplots(2, B, squeeze=False).T, images, colors.reshape(B, side, -1, 3)):
        image = np.asarray(image) / (255 if np.asarray(image).dtype == np.uint8 else 1)
        column[0].imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap='gray', vmin=0, vmax=1)
        column[1].imshow(patches)
        for axes in column:
            axes.set_axis_off()
    figures.save(figure, path)
