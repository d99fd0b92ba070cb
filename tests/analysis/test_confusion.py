"""The picture of a confusion matrix: colours are parts of rows, counts are legible, odd matrices are drawn too."""

import numpy as np
import pytest

from seqjax.analysis import figures
from seqjax.analysis.confusion import plot_confusion
from seqjax.errors import FieldError


def draw(C, seed=0):
    return np.random.default_rng(seed).integers(1, 2000, (C, C))


@pytest.fixture
def figure(monkeypatch):
    """Draws as plot_confusion does and returns the figure."""
    def shown(*args, **options):
        kept = []
        monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
        plot_confusion(*args, 'x.png', **options)
        return kept[0]

    return shown


def cells(axes):
    """{(row, column): text} of what is written into the matrix."""
    return {(int(y), int(x)): text.get_text() for text in axes.texts for x, y in [text.get_position()]}


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_colours_are_parts_of_rows_and_counts_are_in_their_cells(figure):
    counts = draw(4)
    counts[1, 2] = 0
    axes = figure(counts, 'dcba').axes[0]
    expected = [[count / sum(row) for count in row] for row in counts.tolist()]
    np.testing.assert_allclose(axes.images[0].get_array(), expected, rtol=1e-12)
    assert cells(axes) == {(i, j): str(counts[i, j]) for i in range(4) for j in range(4) if (i, j) != (1, 2)}
    assert labels(axes.xaxis) == labels(axes.yaxis) == list('dcba')
    assert (axes.get_xlabel(), axes.get_ylabel()) == ('answer', 'truth')


def test_the_title_has_the_scores(figure):
    axes = figure([[3, 1], [2, 4]], ('no', 'yes'), title='reviews').axes[0]
    assert axes.get_title(loc='left') == 'reviews\naccuracy 70.0%, macro-F1 0.697'
    assert figure(np.zeros((2, 2), int), ('no', 'yes')).axes[0].get_title(loc='left') == 'no examples'


def test_a_class_without_examples_is_gray_and_says_so(figure):
    axes = figure([[4, 0, 1], [0, 0, 0], [0, 2, 0]], 'abc').axes[0]
    np.testing.assert_array_equal(np.ma.getmaskarray(axes.images[0].get_array()), [[False] * 3, [True] * 3, [False] * 3])
    assert cells(axes) == {(0, 0): '4', (0, 2): '1', (1, 1): 'no examples', (2, 1): '2'}


@pytest.mark.parametrize('C', [1, 20, 40])
def test_the_picture_grows_and_names_and_counts_stay_legible(C, figure):
    drawn = figure(draw(C), [f'a rather long name for number {i}' for i in range(C)])
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    cell = axes.get_window_extent().height / C
    assert cell > 0.15 * drawn.dpi
    assert len(axes.texts) == (C * C if C <= 20 else 0)
    assert all(text.get_window_extent().width < cell for text in axes.texts)
    assert labels(axes.yaxis) == [f'a rather long …{f"for number {i}"[-9:]}' for i in range(C)]
    assert all(label.get_window_extent().width < cell for label in axes.get_xticklabels())
    assert drawn.bbox_inches.count_contains(drawn.get_tightbbox().corners()) == 4  # nothing is cut off


def test_very_many_classes_fit_by_leaving_names_out(figure):
    axes = figure(np.eye(250, dtype=int), range(250)).axes[0]
    assert axes.figure.get_size_inches().max() < 20
    assert labels(axes.yaxis) == [str(i) for i in range(0, 250, 3)]


@pytest.mark.parametrize('count, text', [(7, '7'), (9999, '9999'), (10_000, '10k'), (999_499, '999k'), (999_500, '1.0M'),
                                         (99_949_999, '99.9M'), (123_456_789, '123M')])
def test_large_counts_are_shortened(count, text, figure):
    assert cells(figure([[count]], 'a').axes[0]) == {(0, 0): text}


def test_names_are_not_read_as_formulas_and_the_file_is_written(tmp_path):
    plot_confusion(draw(2), ('$\\frac$', '$^$'), tmp_path / 'deep' / 'confusion.png', title='$\\frac$')
    assert [file.name for file in (tmp_path / 'deep').iterdir()] == ['confusion.png']
    assert (tmp_path / 'deep' / 'confusion.png').read_bytes().startswith(b'\x89PNG')


def test_every_class_needs_a_name():
    with pytest.raises(FieldError, match=r'^counts=\(3, 3\): must be \[C, C\] for the 2 classes that are named'):
        plot_confusion(draw(3), 'ab', 'x.png')
