"""A text colored by what a unit does while reading it: as a page without scripts, and as a picture."""

import html
import itertools

import numpy as np

from seqjax.analysis.figures import new_figure, save

SHADES = 8  # on either side of white

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
pre {{ font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; border: 1px solid #ddd; padding: .8rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .15rem .8rem .15rem 0; text-align: left }}
{colors}
</style></head><body>
<h1>{title}</h1>
<p>{introduction}</p>
<table><tr><th>unit</th><th>feature</th><th>correlation</th></tr>
{rows}
</table>
{sections}
</body></html>
"""


def write_page(path, title, introduction, pieces, panels):
    """Writes one self-contained HTML page.

    pieces: the text, token by token. panels: [(heading, feature, correlation, activations [T])]; blue is negative, red
    positive, each unit on its own scale.
    """
    rows = '\n'.join(f'<tr><td><a href="#u{n}">{html.escape(heading)}</a></td><td>{html.escape(feature)}</td>'
                     f'<td>{r:+.2f}</td></tr>' for n, (heading, feature, r, _) in enumerate(panels))
    sections = '\n'.join(f'<h2 id="u{n}">{html.escape(heading)}: {html.escape(feature)}, r = {r:+.2f}</h2>\n'
                         f'<pre>{colored_text(pieces, values)}</pre>'
                         for n, (heading, feature, r, values) in enumerate(panels))
    colors = '\n'.join(f'.c{shade} {{ background: {_color(shade / SHADES - 1)} }}' for shade in range(2 * SHADES + 1))
    path.write_text(_PAGE.format(title=html.escape(title), introduction=html.escape(introduction), colors=colors, rows=rows,
                                 sections=sections), 'utf-8')


def colored_text(pieces, activations):
    """The text as HTML, with neighbours of the same shade in one element. activations: [T], one a piece."""
    shades = np.rint(np.clip(scaled(activations), -1, 1) * SHADES).astype(int) + SHADES
    runs = itertools.groupby(zip(pieces, shades), key=lambda pair: pair[1])
    return ''.join(f'<span class="c{shade}">{html.escape("".join(piece for piece, _ in run))}</span>' for shade, run in runs)


def scaled(activations):
    """The activations as parts of their 99th percentile in size, so that one outlier does not bleach the rest."""
    activations = np.asarray(activations, np.float64)
    return activations / max(np.percentile(np.abs(activations), 99), 1e-9)


def plot_text(path, pieces, panels, *, lines=12, columns=88):
    """The same as a picture: the first `lines` lines of the text, once a panel."""
    text = ''.join(pieces)
    owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    places = _places(text, lines, columns)
    rows = 1 + max(row for row, _, _ in places)
    figure = new_figure(0.085 * columns + 0.4, len(panels) * (0.155 * rows + 0.35))
    for axes, (heading, feature, r, activations) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels):
        colors = np.ones((rows, columns, 3))
        strength = np.clip(scaled(activations), -1, 1)
        for row, column, i in places:
            colors[row, column] = _rgb(strength[owner[i]])
            if not text[i].isspace():
                axes.text(column, row, text[i], ha='center', va='center', family='monospace', fontsize=7, parse_math=False)
        axes.imshow(colors, aspect='auto', interpolation='nearest')
        axes.set_axis_off()
        axes.set_title(f'{heading}: {feature}, r = {r:+.2f}', loc='left', fontsize=9)
    save(figure, path)


def _places(text, lines, columns):
    """[(row, column, index)] of the characters of the first lines; what is too long for a line goes on in the next."""
    places, row, column = [], 0, 0
    for i, character in enumerate(text):
        if character == '\n' or column == columns:
            row, column = row + 1, 0
        if row == lines:
            break
        if character != '\n':
            places.append((row, column, i))
            column += 1
    return places or [(0, 0, 0)]


def _rgb(strength):
    """Blue at -1, white at 0, red at 1."""
    end = np.array((0.35, 0.55, 0.95)) if strength < 0 else np.array((0.95, 0.45, 0.4))
    return 1 - abs(strength) * (1 - end)


def _color(strength):
    return '#' + ''.join(f'{round(255 * part):02x}' for part in _rgb(strength))
