"""Runs side by side: every run that has a held-out loss has its line, and its row in the table."""

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest

from seqjax.analysis import comparison_table, figures, plot_comparison


def curve(*losses):
    return [{'step': 10 * n, 'eval/loss': loss} for n, loss in enumerate(losses)] + [{'step': 1, 'train/loss': 9.0}]


def drawn(path, number):
    """Whether the picture has pixels of matplotlib's colour number so-and-so."""
    picture = matplotlib.image.imread(path)[..., :3]
    return (np.abs(picture - matplotlib.colors.to_rgb(f'C{number}')) < 0.03).all(axis=-1).sum() > 10


@pytest.mark.parametrize('curves, seen', [
    ({}, []),
    (dict(a=curve(3, 2, 1)), [True]),
    (dict(a=curve(3, 2, 1), b=[], c=curve(3, None, 0.001)), [True, False, True]),
])
def test_the_picture_has_a_line_for_every_run_with_a_held_out_loss(curves, seen, tmp_path):
    plot_comparison(curves, tmp_path / 'comparison.png')
    assert [file.name for file in tmp_path.iterdir()] == ['comparison.png']
    assert [drawn(tmp_path / 'comparison.png', number) for number in range(len(curves))] == seen


@pytest.mark.parametrize('losses, scale', [((3, 1), 'linear'), ((3, 0.1), 'log'), ((3, 0.0), 'linear')])
def test_a_large_range_is_drawn_on_a_logarithmic_axis_and_the_best_run_is_named_first(losses, scale, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: shown.append(figure.axes[0]))
    plot_comparison(dict(worse=curve(3, 2.9), better=curve(*losses)), tmp_path / 'x.png', unit='mean squared error')
    axes, = shown
    assert axes.get_yscale() == scale
    assert axes.get_ylabel() == 'held-out loss (mean squared error)'
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f'better  {losses[-1]:.4g}', 'worse  2.9']


def test_the_table_is_aligned():
    results = dict(elman={'eval/loss': 0.16789, 'parameters': 1234, 'steps': 10, 'seconds': 5.0},
                   lru={'eval/loss': 0.00012345, 'parameters': 1234567, 'steps': 10})
    assert comparison_table(results).splitlines() == [
        '       eval/loss  parameters  steps  seconds',
        'elman     0.1679       1,234     10        5',
        'lru    0.0001234   1,234,567     10']
