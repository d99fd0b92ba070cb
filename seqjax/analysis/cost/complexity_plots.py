"""How cost grows, as straight lines on paper with two logarithmic scales."""

from seqjax.analysis import figures
from seqjax.analysis.cost.scaling import along, fit_power_law

LABELS = dict(operations='operations', seconds='seconds', bytes='bytes beside the inputs', depth='operations in sequence')
AXES = dict(n='n, steps of a row', d='d, width')


def plot_costs(measured, path, title=''):
    """A row of panels against n and one against d, a panel for each metric, a line for each name. To a PNG.

    measured: {name: what `scaling.measure` returned}. The legend of a panel has the exponent of every line.
    """
    metrics = [metric for metric in LABELS if any(point[metric] for points in measured.values() for point in points)]
    figure = figures.new_figure(3.7 * len(metrics), 7)
    panels = figure.subplots(len(AXES), len(metrics), squeeze=False)
    for row, letter in zip(panels, AXES):
        for axes, metric in zip(row, metrics):
            _draw(figures.tidy(axes), measured, letter, metric)
    handles = [panels[0][0].plot([], [], **_look(number))[0] for number in range(len(measured))]
    figure.legend(handles, list(measured), loc='outside upper left', ncols=len(measured), frameon=False)
    if title:
        figure.suptitle(title, x=0.99, ha='right', fontsize=10)
    figures.save(figure, path)


def _draw(axes, measured, letter, metric):
    lines = []
    for number, points in enumerate(measured.values()):
        found = [(point[letter], point[metric]) for point in along(points, letter) if point[metric]]
        if len(found) > 1:
            slope = fit_power_law([{letter: size} for size, _ in found], [value for _, value in found]).exponents[letter]
            lines += axes.plot(*zip(*found), label=f'${letter}^{{{round(slope, 2) + 0.0:.2f}}}$', **_look(number))  # no -0.00
    axes.set_xscale('log', base=2)
    axes.set_yscale('log')
    axes.xaxis.set_major_formatter(lambda value, _: f'{value:,.0f}')
    axes.set(xlabel=AXES[letter], ylabel=LABELS[metric])
    if lines:
        axes.legend(fontsize=8, frameon=False, labelspacing=0.2, borderpad=0, handlelength=1.6)


def _look(number):
    """Every other line has gaps, through which one shows that lies under it."""
    return dict(color=f'C{number}', linestyle=('-', '--')[number % 2], marker='o', markersize=3)
