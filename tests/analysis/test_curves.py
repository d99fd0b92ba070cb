"""Loss curves: the smoothing formula, and a picture that has what the log has."""

import matplotlib.image
import numpy as np
import pytest

from seqjax.analysis import figures, plot_loss, smooth


@pytest.mark.parametrize('half_life', [1, 2.5, 40])
def test_smoothing_is_the_weighted_mean_of_what_came_before(half_life):
    values = np.random.default_rng(0).normal(size=30)
    for n, smoothed in enumerate(smooth(values, half_life)):
        weights = 0.5 ** ((n - np.arange(n + 1)) / half_life)  # a value counts half after half_life steps
        assert smoothed == pytest.approx((weights * values[:n + 1]).sum() / weights.sum(), rel=1e-9)


def test_smoothing_keeps_a_constant_and_takes_nothing():
    assert smooth([3.0] * 5, 2) == pytest.approx([3.0] * 5, rel=1e-12)
    assert smooth([], 2) == []


def coloured(path, red, green, blue):
    """How many pixels of a picture have about this colour."""
    picture = matplotlib.image.imread(path)[..., :3]
    return int((np.abs(picture - np.array([red, green, blue]) / 255) < 0.03).all(axis=-1).sum())


@pytest.mark.parametrize('lines, training, held_out', [
    ([], False, False),
    ([dict(step=n, **{'train/loss': 3 / n}) for n in range(1, 50)], True, False),
    ([dict(step=5, **{'eval/loss': 2.0})], False, True),
    ([dict(step=n, **{'train/loss': 3 / n}) for n in range(1, 50)] + [dict(step=50, **{'eval/loss': 1.0})], True, True),
    ([dict(step=1, **{'train/loss': None, 'eval/loss': None})], False, False),  # a loss that was not finite
], ids=['nothing', 'training', 'held out', 'both', 'not finite'])
def test_the_picture_shows_the_curves_that_the_log_has(lines, training, held_out, tmp_path):
    path = tmp_path / 'loss.png'
    plot_loss(lines, path)
    assert [file.name for file in tmp_path.iterdir()] == ['loss.png']
    assert (coloured(path, 31, 119, 180) > 100) == training
    assert (coloured(path, 255, 127, 14) > 10) == held_out


@pytest.mark.parametrize('steps', [1, 2, 4, 300])
def test_steps_are_whole_numbers(steps, monkeypatch):
    kept = []
    monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
    plot_loss([dict(step=n, **{'train/loss': 3 / n, 'eval/loss': 3.0}) for n in range(1, steps + 1)], 'loss.png')
    kept[0].draw_without_rendering()
    ticks = kept[0].axes[0].get_xticks()
    assert len(ticks) and (ticks == ticks.round()).all()


def test_a_new_picture_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / 'loss.png'
    path.write_bytes(b'old')
    plot_loss([dict(step=1, **{'train/loss': 1.0})], path)
    assert path.read_bytes().startswith(b'\x89PNG')
