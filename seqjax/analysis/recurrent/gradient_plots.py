"""Pictures of gradient flow. Each takes {layer: GradientFlow} and writes a PNG; the last takes curves of several runs."""

import numpy as np

from seqjax.analysis.figures import label_ends, new_figure, save, tidy
from seqjax.analysis.recurrent.gradients import horizon, mean_over_rows

DECADE = np.log(10)
LAG = 'lag (steps back from the end)'
FLOOR = -30  # decades: what has vanished further is drawn at the bottom of the picture


def plot_gradients(flows, path):
    """Gradient norm against lag, one panel a layer, with the bounds over it."""
    for axes, flow in _panels(flows, path, 'gradient norm, power of ten'):
        norm, worst, steps = _decades(flow.norm), _decades(flow.singular)[:, 0], _decades(flow.step_norms)
        _curve(axes, norm, 'random direction: $|M_k|_F / \\sqrt{P}$', color='tab:blue', linewidth=2)
        _curve(axes, worst, 'worst direction: $\\sigma_1(M_k)$', color='tab:blue', linestyle='--')
        if flow.bound is not None:
            _curve(axes, _decades(flow.bound), 'bound: $(\\gamma_{max} \\sigma_1)^k$', color='tab:red')
        _curve(axes, steps, 'bound: $|J_T| \\cdots |J_{T-k+1}|$', color='black', linestyle=':')
        _limits(axes, np.concatenate([norm, worst]), room=min(3, max(0.2, np.nanmax(flow.step_norms) / DECADE)))
        reach = horizon(mean_over_rows(flow.norm))
        if reach is not None:
            axes.axvline(reach, color='tab:blue', alpha=0.4, linewidth=1)
            axes.annotate(f'1 % at lag {reach}', (reach, axes.get_ylim()[0]), xytext=(4, 4), textcoords='offset points',
                          fontsize=8, color='tab:blue')
        _legend(axes)


def plot_spectrum(flows, path):
    """The largest singular values of dS_T / dS_{T-k} against the lag, one panel a layer."""
    import matplotlib

    for axes, flow in _panels(flows, path, 'singular value, power of ten'):
        singular = _decades(flow.singular)  # [K, top]
        colors = matplotlib.colormaps['Blues'](np.linspace(0.9, 0.3, singular.shape[1]))
        for values, color in zip(singular.T, colors):
            _curve(axes, values, None, color=color)
        _limits(axes, singular, room=0.5)
        label_ends(axes, [(f'$\\sigma_{{{n + 1}}}$', _last(singular[:, n]), colors[n]) for n in (0, len(colors) - 1)])


def plot_saturation(flows, path):
    """Saturated fraction of every gate, layer by layer."""
    bars = [(f'{layer}  {gate}', float(part)) for layer, flow in flows.items() for gate, part in flow.saturation.items()]
    figure = new_figure(7, 0.8 + 0.28 * len(bars))
    axes = tidy(figure.subplots())
    names, values = zip(*bars)
    axes.barh(names, values, color='tab:blue', height=0.6)
    for row, value in enumerate(values):
        axes.annotate(f'{value:.1%}', (value, row), xytext=(4, 0), textcoords='offset points', va='center', fontsize=8)
    axes.set(xlim=(0, 1.08), xlabel='saturated fraction of values')
    axes.invert_yaxis()
    save(figure, path)


def plot_cell_path(flows, path):
    """The two ways from c_{T-k} to c_T, one panel a layer that has a memory cell."""
    with_memory = {layer: flow for layer, flow in flows.items() if flow.cell_path is not None}
    for axes, flow in _panels(with_memory, path, 'norm, power of ten'):
        cell, hidden = _decades(flow.cell_path), _decades(flow.hidden_path)
        _curve(axes, cell, 'cell path: product of\nthe forget gates', color='tab:blue', linewidth=2)
        _curve(axes, hidden, 'hidden path: the rest\nof $\\partial c_T / \\partial c_{T-k}$', color='tab:orange')
        _limits(axes, np.concatenate([cell, hidden]), room=0.5)
        _legend(axes)


def plot_gradient_comparison(curves, path):
    """Gradient norm against lag of several runs in one axes. curves: {name: logs [K]}, natural logarithms."""
    import matplotlib

    figure = new_figure(8, 5)
    axes = tidy(figure.subplots())
    palette, ends = matplotlib.colormaps['tab10'].colors + matplotlib.colormaps['Dark2'].colors, []
    for number, name in enumerate(sorted(curves, key=lambda name: -_last(curves[name]))):
        color = palette[number % len(palette)]
        values = np.asarray(curves[name]) / DECADE
        _curve(axes, values, None, color=color, linewidth=1.8)
        ends.append((name, _last(values), color))
    _limits(axes, np.concatenate([np.asarray(curve) / DECADE for curve in curves.values()]), room=0.5)
    axes.axhline(-2, color='black', linewidth=0.6, linestyle=':')
    axes.annotate('1 %', (0, -2), xytext=(2, 2), textcoords='offset points', fontsize=8)
    axes.set(xlabel=LAG, ylabel='gradient norm, power of ten', xlim=(0, max(map(len, curves.values())) - 1))
    label_ends(axes, ends)
    save(figure, path)


def _panels(flows, path, ylabel):
    """(axes, GradientFlow) of every layer, to draw one after another; the picture is saved behind the last."""
    figure = new_figure(9, 3.2 * len(flows))
    for axes, (layer, flow) in zip(figure.subplots(len(flows), squeeze=False)[:, 0], flows.items()):
        yield tidy(axes), flow
        axes.set(title=layer, xlabel=LAG, ylabel=ylabel)
    save(figure, path)


def _decades(logs):
    """The mean over rows [R, K, ...] -> [K, ...] in powers of ten."""
    return mean_over_rows(logs) / DECADE


def _legend(axes):
    """Beside the curves, where it hides none."""
    axes.legend(frameon=False, fontsize=8, loc='center left', bbox_to_anchor=(1, 0.5))


def _curve(axes, values, label, **look):
    """A line against the lag; what is zero (a log of -inf) is drawn below the floor, not left out."""
    axes.plot(np.arange(len(values)), np.where(np.isneginf(values), 10.0 * FLOOR, values), label=label, **look)


def _limits(axes, values, room):
    """The y axis holds the measured values, down to the floor, and `room` decades above them for the bounds."""
    values = np.asarray(values)[np.isfinite(values)]
    low, high = max(values.min(), FLOOR), max(values.max(), 0)
    axes.set_ylim(low - 0.05 * (high - low) - 0.2, high + room)


def _last(values):
    """The value at the largest lag that any row reaches."""
    values = np.asarray(values)
    return values[~np.isnan(values)][-1]
