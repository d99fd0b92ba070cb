"""Quality of translations against the length of the source."""

from seqjax.analysis import figures


def plot_quality_by_length(curves, path, metric='BLEU'):
    """One line a model over bars of how many sentences have that length, to a PNG.

    curves: {name: the rows of scores_by_length}; the bars are those of the first. A point stands in the middle of its bin.
    """
    curves = {name: rows for name, rows in curves.items() if rows}
    figure = figures.new_figure(7, 4)
    axes = figures.tidy(figure.subplots())
    _draw_counts(axes, next(iter(curves.values()), ()))
    for number, (name, rows) in enumerate(curves.items()):
        axes.plot([(first + last) / 2 for first, last, _, _ in rows], [score for *_, score in rows], color=f'C{number}',
                  marker='o', markersize=4, label=name)
    axes.set(xlabel='source length (tokens)', ylabel=metric)
    axes.set_ylim(bottom=0)
    figures.whole_numbers(axes.xaxis)
    if curves:
        columns = 75 // (max(map(len, curves)) + 6)  # as many as fit
        legend = figure.legend(loc='outside upper left', frameon=False, ncols=max(1, columns))
        for text in legend.get_texts():
            text.set_parse_math(False)
    figures.save(figure, path)


def _draw_counts(axes, rows):
    """Light bars behind the curves, with their own scale on the right."""
    behind = axes.twinx()
    behind.set_zorder(axes.get_zorder() - 1)
    axes.patch.set_visible(False)  # it would hide the bars
    behind.spines[:].set_visible(False)
    behind.tick_params(colors='0.6', length=0)
    behind.set_ylabel('sentences', color='0.6')
    figures.whole_numbers(behind.yaxis)
    if rows:
        firsts, lasts, counts, _ = zip(*rows)
        widths = [last - first + 1 for first, last in zip(firsts, lasts)]
        behind.bar([first - 0.5 for first in firsts], counts, widths, align='edge', color='0.92', edgecolor='white')
        behind.set_ylim(0, 1.6 * max(counts))  # low enough to stay in the background
