"""Accuracy against labels per class: a line for every way to train, a dot for every run.

    {line: {labels per class: [accuracy of every run]}}
"""

from collections.abc import Mapping, Sequence
import itertools
import os
from typing import Any

import numpy as np

from seqjax.analysis import figures

Curves = Mapping[str, Mapping[float, Sequence[float]]]


def label_curves(
        runs: Mapping[str, tuple[Any, float, float]]) -> dict[str, dict[float, list[float]]]:
    """The curves of several runs. A line is called as its runs are, as far as their names agree.

    Args:
        runs: {name: (what it shares with the others of its line, labels per class, accuracy)}.

    Example:
        >>> label_curves({'frozen_1': ('f', 1, 0.5), 'frozen_10': ('f', 10, 0.75)})
        {'frozen': {1: [0.5], 10: [0.75]}}
    """
    lines: list[tuple[Any, list[str], dict]] = []
    for name, (same, labels, accuracy) in runs.items():
        line = next((line for line in lines if line[0] == same), None)
        if line is None:
            lines.append(line := (same, [], {}))
        line[1].append(name)
        line[2].setdefault(labels, []).append(accuracy)
    curves = {}
    for _, names, curve in lines:
        name = _in_common(names)
        curves[names[0] if name in curves else name] = dict(sorted(curve.items()))
    return curves


def summarise(curves: Curves) -> dict[str, list[dict[str, float]]]:
    """Mean and standard deviation (n - 1; 0 of one run) of every point, as JSON has them."""
    point = lambda labels, found: dict(labels=labels, runs=len(found), mean=float(np.mean(found)),
                                       std=float(np.std(found, ddof=1)) if len(found) > 1 else 0.0)
    return {name: [point(*one) for one in curve.items()] for name, curve in curves.items()}


def plot_accuracy_by_labels(curves: Curves, path: str | os.PathLike) -> None:
    """A line through the means of every curve, and a dot for every run, to a PNG."""
    figure = figures.new_figure(7, 4)
    axes = figures.tidy(figure.subplots())
    every = sorted({labels for curve in curves.values() for labels in curve})
    for number, (name, curve) in enumerate(curves.items()):
        means = [100 * np.mean(found) for found in curve.values()]
        axes.plot(list(curve), means, color=f'C{number}', marker='o', markersize=5, label=name)
        dots = [(labels, 100 * value) for labels, found in curve.items() for value in found]
        axes.scatter(*zip(*dots), color=f'C{number}', s=12, alpha=0.5, linewidths=0)
    axes.set_xscale('log')
    axes.set_xticks(every, [f'{labels:,.4g}' for labels in every])
    axes.minorticks_off()
    axes.set(xlabel='labels per class', ylabel='accuracy (%)')
    for text in axes.legend(frameon=False).get_texts():
        text.set_parse_math(False)
    figures.save(figure, path)


def _in_common(names):
    """The words that all names begin with: 'fine_tuned' of 'fine_tuned_1' and 'fine_tuned_10'; the
    first where they begin differently."""
    words = zip(*(name.split('_') for name in names))
    same = '_'.join(row[0] for row in itertools.takewhile(lambda row: len(set(row)) == 1, words))
    return same or names[0]
