"""Principal components against scipy-free linear algebra, and pictures that show every class."""

import numpy as np
import pytest

from seqjax.analysis import figures
from seqjax.analysis.vision.feature_map import plot_features, plot_patches, principal_components


@pytest.fixture
def drawn(monkeypatch):
    kept = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
    return kept


def test_components_are_those_of_the_covariance():
    x = np.random.default_rng(0).normal(size=(60, 5)) * [1, 5, 2, 1, 3] + 7
    places, parts = principal_components(x, 2)
    values, vectors = np.linalg.eigh(np.cov(x.T))
    np.testing.assert_allclose(parts, values[::-1][:2] / values.sum())
    np.testing.assert_allclose(np.abs(places), np.abs((x - x.mean(axis=0)) @ vectors[:, ::-1][:, :2]), atol=1e-9)
    np.testing.assert_allclose(principal_components(x[:, ::-1], 2)[0], places, atol=1e-9)  # whatever the solver's sign


def test_constant_features_have_no_direction():
    places, parts = principal_components(np.ones((4, 3)))
    np.testing.assert_array_equal(places, 0)
    np.testing.assert_array_equal(parts, 0)


def test_a_panel_for_each_set_and_a_color_for_each_class(drawn):
    rng = np.random.default_rng(0)
    sets = dict(pixels=rng.normal(size=(40, 6)), trained=rng.normal(size=(40, 3)))
    plot_features(sets, np.arange(40) % 4, ['a', 'b', 'c', 'd'], 'x.png')
    panels = drawn[0].axes
    assert [axes.get_title(loc='left').split(':')[0] for axes in panels] == ['pixels', 'trained']
    for axes in panels:
        assert [len(points.get_offsets()) for points in axes.collections] == [10] * 4


def test_patches_alike_have_one_color(drawn):
    tokens = np.repeat(np.random.default_rng(0).normal(size=(2, 2, 5)), 8, axis=1)  # [2, 16, 5]: halves of an image
    plot_patches(np.zeros((2, 8, 8, 1), np.uint8), tokens, 'x.png')
    colors = drawn[0].axes[1].images[0].get_array() if len(drawn[0].axes[1].images) else None
    assert colors is not None and len(np.unique(np.reshape(colors, (16, -1)), axis=0)) <= 2
