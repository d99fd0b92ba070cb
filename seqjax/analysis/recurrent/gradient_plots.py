"""Pictures of gradient flow. Each takes {layer: GradientFlow} and writes a PNG; the last takes curves of several runs."""

import numpy as np

from seqjax.analysis.figures import label_ends, new_figure, save, tidy
from seqjax.analysis.recurrent.gradients import horizon, mean_over_rows

DECADE = np.log(10)
LAG = 'lag (steps back from the end)'
FLOOR = -30  # decades: what has vanished further is drawn at the bottom of the picture


def plot_gradients(flows, path):
    """Gradient norm against lag, one panel a layer, with the bounds over it."""
    figure = new_figure(9, 3.2 * len(flows))
    for axes, (layer, flow) in zip(_panels(figure, len(flows)), flows.items()):
        norm = mean_over_rows(flow.norm) / DECADE
        _curve(axes, norm, 'random direction: $|M_k|_F / \\sqrt{P}$', color='tab:blue', linewidth=2)
        _curve(axes, mean_over_rows(flow.singular)[:, 0] / DECADE, 'worst direction: $\\sigma_1(M_k)$', color='tab:blue',
               linestyle='--')
        if flow.bound is not None:
            _curve(axes, mean_over_rows(flow.bound) / DECADE, 'bound: $(\\gamma_{max} \\sigma_1)^k$', color='tab:red')
        _curve(axes, mean_over_rows(flow.step_norms) / DECADE, 'bound: $|J_T| \\cdots |J_{T-k+1}|$', color='black',
               linestyle=':')
        measured = np.concatenate([norm, mean_over_rows(flow.singular)[:, 0] / DECADE])
        _limits(axes, measured, room=min(3, max(0.2, np.nanmax(flow.step_norms) / DECADE)))
        reach = horizon(mean_over_rows(flow.norm))
        if reach is not None:
            axes.axvline(reach, color='tab:blue', alpha=0.4, linewidth=1)
            axes.annotate(f'1 % at lag {reach}', (reach, axes.get_ylim()[0]), xytext=(4, 4), textcoords='offset points',
                          fontsize=8, color='tab:blue')
        axes.set(title=layer, xlabel=LAG, ylabel='gradient norm, power of ten')
        _legend(axes)
    save(figure, path)


def plot_spectrum(flows, path):
    """The largest singular values of dS_T / dS_{T-k} against the lag, one panel a layer."""
    figure = new_figure(9, 3.2 * len(flows))
    for axes, (layer, flow) in zip(_panels(figure, len(flows)), flows.items()):
        singular = mean_over_rows(flow.singular) / DECADE  # [K, top]
        for number, values in enumerate(singular.T):
            shade = 0.9 - 0.6 * number / max(1, singular.shape[1] - 1)
            _curve(axes, values, None, color=_blues(shade))
        _limits(axes, singular, room=0.5)
        ends = [(f'$\\sigma_{{{n + 1}}}$', _last(singular[:, n]), _blues(0.9 - 0.6 * n / max(1, singular.shape[1] - 1)))
                for n in (0, singular.shape[1] - 1)]
        label_ends(axes, ends)
        axes.set(title=layer, xlabel=LAG, ylabel='singular value, power of ten')
    save(figure, path)


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
    flows = {layer: flow for layer, flow in flows.items() if flow.cell_path is not None}
    figure = new_figure(9, 3.2 * len(flows))
    for axes, (layer, flow) in zip(_panels(figure, len(flows)), flows.items()):
        cell, hidden = mean_over_rows(flow.cell_path) / DECADE, mean_over_rows(flow.hidden_path) / DECADE
        _curve(axes, cell, 'cell path: product of\nthe forget gates', color='tab:blue', linewidth=2)
        _curve(axes, hidden, 'hidden path: the rest\nof $\\partial c_T / \\partial c_{T-k}$', color='tab:orange')
        _limits(axes, np.concatenate([cell, hidden]), room=0.5)
        axes.set(title=layer, xlabel=LAG, ylabel='norm, power of ten')
        _legend(axes)
    save(figure, path)


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


def _panels(figure, count):
    return [tidy(axes) for axes in figure.subplots(count, squeeze=False)[:, 0]]


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


def _blues(shade):
    import matplotlib

    return matplotlib.colormaps['Blues'](shade)
