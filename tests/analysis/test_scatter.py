"""Predictions against targets: every finite pair is in the picture, and the scores are those of all of them."""

import numpy as np
import pytest
import scipy.stats

from seqjax.analysis import figures
from seqjax.analysis.scatter import plot_predictions
from seqjax.errors import FieldError


def draw(size):
    rng = np.random.default_rng(size)
    targets = rng.normal(5, 3, size)
    return targets + rng.normal(size=size), targets


@pytest.fixture
def axes(monkeypatch):
    """Draws as plot_predictions does and returns the axes."""
    def shown(*args, **options):
        kept = []
        monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
        plot_predictions(*args, 'x.png', **options)
        return kept[0].axes[0]

    return shown


@pytest.mark.parametrize('size', [50, 2000])
def test_few_are_points(size, axes):
    predictions, targets = draw(size)
    drawn = axes(predictions, targets, unit='kDa')
    np.testing.assert_array_equal(drawn.collections[0].get_offsets(), np.stack((targets, predictions), axis=1))
    assert (drawn.get_xlabel(), drawn.get_ylabel()) == ('target (kDa)', 'prediction (kDa)')
    spearman, pearson = (score(predictions, targets).statistic for score in (scipy.stats.spearmanr, scipy.stats.pearsonr))
    assert drawn.get_title(loc='left') == f'Spearman {spearman:.3f}, Pearson {pearson:.3f}, {size:,} rows'


def test_many_are_counted_in_hexagons(axes):
    drawn = axes(*draw(3000))
    assert drawn.collections[0].get_array().sum() == 3000
    assert drawn.get_xlabel() == 'target'


def test_both_axes_are_the_same_and_the_line_is_the_identity(axes):
    drawn = axes([1, 2, 30], [-10, 2, 3])
    assert drawn.get_xlim() == drawn.get_ylim() == pytest.approx((-11.6, 31.6)) and drawn.get_aspect() == 1
    line, = drawn.lines
    assert line.get_slope() == 1 and line.get_xy1() == (drawn.get_xlim()[0],) * 2


def test_what_is_not_finite_is_counted_and_not_drawn(axes):
    drawn = axes([1, np.nan, 2, np.inf], [1, 2, 3, 4])
    assert len(drawn.collections[0].get_offsets()) == 2
    assert drawn.get_title(loc='left') == 'Spearman 1.000, Pearson 1.000, 4 rows, 2 of them not finite'


@pytest.mark.parametrize('pair', [([], []), ([1.0], [2.0]), (np.ones(5), np.arange(5)), (np.ones(2500), np.ones(2500))],
                         ids=['none', 'one', 'constant', 'constant hexagons'])
def test_odd_cases_are_drawn_too(pair, tmp_path):
    plot_predictions(*pair, tmp_path / 'scatter.png')
    assert (tmp_path / 'scatter.png').read_bytes().startswith(b'\x89PNG')


def test_shapes_must_agree():
    with pytest.raises(FieldError, match=r'predictions=\(2,\): must be \[N\], as targets are, which have shape \(3,\)'):
        plot_predictions(np.ones(2), np.ones(3), 'x.png')
