"""Pictures of gradient flow are written whatever the numbers are."""

import numpy as np
import pytest

from seqjax.analysis import figures
from seqjax.analysis.recurrent import gradient_plots
from seqjax.analysis.recurrent.gradients import GradientFlow


def made_flow(slope, *, elman=False, lstm=False):
    """A flow over 10 lags whose second row is shorter than the first."""
    logs = np.arange(11) * slope * np.ones((2, 1))
    logs[1, 6:] = np.nan
    return GradientFlow(norm=logs, singular=np.stack([logs + 1, logs], axis=-1), step_norms=np.abs(logs),
                        bound=logs + 2 if elman else None,
                        cell_path=logs if lstm else None, hidden_path=np.where(logs == 0, -np.inf, logs) if lstm else None,
                        exponents=np.zeros((2, 3)), states=np.zeros((2, 11, 4)),
                        saturation=dict(i=0.25, f=1.0) if lstm else {})


FLOWS = {'elman': made_flow(-3, elman=True), 'lstm': made_flow(-0.1, lstm=True), 'exploding': made_flow(5),
         'vanished': made_flow(-300)}


@pytest.mark.parametrize('plot', [gradient_plots.plot_gradients, gradient_plots.plot_spectrum,
                                  gradient_plots.plot_saturation, gradient_plots.plot_cell_path])
def test_every_layer_has_its_panel(tmp_path, plot):
    plot(FLOWS, tmp_path / 'new' / 'a.png')
    assert (tmp_path / 'new' / 'a.png').read_bytes().startswith(b'\x89PNG')
    assert [path.name for path in (tmp_path / 'new').iterdir()] == ['a.png']


def test_several_runs_in_one_picture(tmp_path):
    curves = {'vanishing': -np.arange(9.0), 'cut off': np.array([0.0, -1, -np.inf]), 'short': np.array([0, 1, np.nan]),
              'exploding': np.arange(9) * 50.0}
    gradient_plots.plot_gradient_comparison(curves, tmp_path / 'all.png')
    assert (tmp_path / 'all.png').is_file()


def test_names_at_the_ends_of_curves_do_not_touch_and_stay_in_the_picture():
    axes = figures.new_figure(4, 3).subplots()
    axes.set_ylim(-10, 0)
    figures.label_ends(axes, [(str(n), -99.0, 'black') for n in range(5)] + [('top', 0.0, 'red')])
    places = sorted(text.xy[1] for text in axes.texts)
    assert places[0] == 0 and places[-1] == 1 and np.diff(places).min() >= 0.045 - 1e-9
