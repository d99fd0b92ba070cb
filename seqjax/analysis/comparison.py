"""Several runs side by side: their held-out losses in one picture, their final numbers in one table."""

from seqjax.analysis import figures
from seqjax.analysis.curves import points_of
from seqjax.analysis.tables import columns as in_columns

COLUMNS = ('eval/loss', 'eval/accuracy', 'test/accuracy', 'test/macro_f1', 'eval/spearman', 'test/spearman',
           'test/ridge_spearman', 'test/bleu', 'test/chrf', 'test/exact_match', 'parameters', 'flops_per_step', 'steps', 'seconds')
LOG_SCALE_FROM = 10  # the largest loss over the smallest


def plot_comparison(curves, path, unit='nats per token'):
    """Held-out loss against the step, one line a run, to a PNG. curves: {name: the dicts of its metrics.jsonl}.

    The legend has the best run first, each with its last loss.
    """
    lines = {name: points_of(curve, 'eval/loss') for name, curve in curves.items()}
    figure = figures.new_figure(7, 4)
    axes = figures.tidy(figure.subplots())
    drawn = {}
    for number, (name, points) in enumerate(lines.items()):
        if points:
            drawn[name], = axes.plot(*zip(*points), color=f'C{number}', marker='o', markersize=3)
    order = sorted(drawn, key=lambda name: lines[name][-1][1])
    losses = [loss for points in lines.values() for _, loss in points]
    if losses and min(losses) > 0 and max(losses) > LOG_SCALE_FROM * min(losses):
        axes.set_yscale('log')
    axes.set(xlabel='step', ylabel=f'held-out loss ({unit})')
    figures.whole_numbers(axes.xaxis)
    if order:
        axes.legend([drawn[name] for name in order], [f'{name}  {lines[name][-1][1]:.4g}' for name in order], frameon=False)
    figures.save(figure, path)


def comparison_table(results, columns=COLUMNS):
    """The final numbers as text, a line a run. results: {name: its result.json}; columns that no run has are left out."""
    columns = [column for column in columns if any(result.get(column) is not None for result in results.values())]
    rows = [('', *columns)]
    rows += [(name, *(_short(result.get(column)) for column in columns)) for name, result in results.items()]
    return '\n'.join(in_columns(rows, right=range(1, len(rows[0]))))


def _short(value):
    return '' if value is None else f'{value:,}' if isinstance(value, int) else f'{value:.4g}'
