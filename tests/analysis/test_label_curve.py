"""Accuracy against labels per class: which runs are one line, and what is drawn."""

import pytest

from seqjax.analysis import figures, label_curves, plot_accuracy_by_labels
from seqjax.analysis.label_curve import summarise

RUNS = dict(fine_tuned_1_0=('f', 1, 0.25), fine_tuned_10_0=('f', 10, 0.75),
            fine_tuned_10_1=('f', 10, 0.5), scratch_1_0=('s', 1, 0.125))


def test_runs_of_one_line_are_called_by_the_words_that_their_names_begin_with():
    found = label_curves(RUNS)
    assert found == {'fine_tuned': {1: [0.25], 10: [0.75, 0.5]}, 'scratch_1_0': {1: [0.125]}}
    unlike = label_curves({'b': (0, 10, 0.5), 'a': (0, 1, 0.25)})
    assert list(unlike['b']) == [1, 10]
    two = label_curves({f'a_{labels}': (labels > 2, labels, 0.5) for labels in (1, 2, 3, 4)})
    assert list(two) == ['a', 'a_3']  # no line is lost


def test_a_point_has_mean_and_deviation():
    assert summarise(label_curves(RUNS))['fine_tuned'] == [
        dict(labels=1, runs=1, mean=0.25, std=0.0),
        dict(labels=10, runs=2, mean=0.625, std=pytest.approx(0.125 * 2 ** 0.5))]


def test_lines_go_through_means_over_a_dot_for_every_run(monkeypatch):
    kept = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
    plot_accuracy_by_labels(label_curves(RUNS), 'x.png')
    axes, = kept[0].axes
    lines = [line.get_xydata().tolist() for line in axes.lines]
    assert lines == [[[1, 25], [10, 62.5]], [[1, 12.5]]]
    dots = [dots.get_offsets().tolist() for dots in axes.collections]
    assert dots == [[[1, 25], [10, 75], [10, 50]], [[1, 12.5]]]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ['1', '10']
    assert axes.get_xscale() == 'log' and axes.get_ylabel() == 'accuracy (%)'
    assert axes.get_xlabel() == 'labels per class'


def test_a_name_with_a_dollar_is_drawn_as_it_is(tmp_path):
    plot_accuracy_by_labels({'a $_$': {1: [0.5]}}, tmp_path / 'x.png')
    assert (tmp_path / 'x.png').stat().st_size > 1000
