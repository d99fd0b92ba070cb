"""The tree of a beam search as a picture: what was thought of, kept, dropped and finished at every step."""

import dataclasses
import pathlib
import unicodedata
from xml.sax.saxutils import escape

import numpy as np

from seqjax.analysis.alignment import printable
from seqjax.decode.beam import DROPPED, FINISHED, GOES_ON
from seqjax.errors import FieldError

MOST_DROPPED = 2  # of every step, the best ones
BOX, ROW, GAP, MARGIN = 32, 38, 34, 16  # height of a node, from row to row, between columns, around everything; in pixels
WORD_SIZE, SMALL_SIZE = 13, 10
CAPTION = 'under a word: log P up to here; thick: the answer; framed: finished; grey: dropped'

_PAGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"
     viewBox="0 0 {width:.0f} {height:.0f}" font-family="system-ui, 'DejaVu Sans', sans-serif" text-anchor="middle">
<title>A beam search</title>
<rect width="100%" height="100%" fill="white"/>
{parts}
</svg>
"""


@dataclasses.dataclass(eq=False)
class _Node:
    """A candidate: `tokens` lead to it from the start. x is the left side of its box, y the middle."""

    tokens: tuple
    score: float
    fate: int
    parent: '_Node | None'
    word: str = ''
    wins: bool = False
    x: float = 0
    y: float = 0
    width: float = 0


def beam_tree_svg(trace, row, words, path=None, answer=None):
    """The search of one row as SVG, from left to right; also written to `path` where one is given.

    trace: a `decode.BeamTrace`. words: token -> str. answer: the tokens that the search returned, no padding
    behind them; without, the finished candidate with the largest log P. The answer is a straight line, columns are moved up
    or down for that. A column is in the order of its parents, so that no two edges cross.
    """
    columns = _columns(trace, row)
    _mark_answer(columns, answer)
    for column in columns:
        for node in column:
            node.word = printable(words(node.tokens[-1])) if node.tokens else '<s>'
    _place(columns)
    nodes = [node for column in columns for node in column]
    top = min(node.y for node in nodes) - ROW / 2 - WORD_SIZE - MARGIN
    for node in nodes:
        node.y -= top
    height = max(node.y for node in nodes) + ROW / 2 + SMALL_SIZE + MARGIN
    width = MARGIN + max(columns[-1][0].x + columns[-1][0].width, _text_width(CAPTION, SMALL_SIZE) + MARGIN)
    parts = [_text(column[0].x + column[0].width / 2, MARGIN, SMALL_SIZE, '#888', str(step))
             for step, column in enumerate(columns) if step]
    parts += [_edge(node) for node in sorted(nodes, key=lambda node: node.wins) if node.parent]
    parts += [_box(node) for node in nodes]
    parts.append(_text(MARGIN, height - MARGIN / 2, SMALL_SIZE, '#888', CAPTION, anchor='start'))
    svg = _PAGE.format(width=width, height=height, parts='\n'.join(parts))
    if path is not None:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(svg, 'utf-8')
    return svg


def _columns(trace, row):
    """The nodes of every step, the start first, from top to bottom: children in the order of their parents, best first."""
    tokens, parents, scores, fates, slots = (np.asarray(getattr(trace, name))[row]
                                             for name in ('tokens', 'parents', 'scores', 'fate', 'slots'))  # [T, 2k]
    start = _Node((), 0.0, GOES_ON, None)
    columns, live = [[start]], dict.fromkeys(range(tokens.shape[1]), start)
    for t in range(np.count_nonzero((fates != DROPPED).any(axis=1))):  # the steps that the search took
        column, next_live, dropped = [], {}, 0
        for i in np.argsort(-scores[t], kind='stable'):
            dropped += fates[t, i] == DROPPED
            if np.isneginf(scores[t, i]) or fates[t, i] == DROPPED and dropped > MOST_DROPPED:
                continue
            parent = live[int(parents[t, i])]
            node = _Node((*parent.tokens, int(tokens[t, i])), float(scores[t, i]), int(fates[t, i]), parent)
            column.append(node)
            if node.fate == GOES_ON:
                next_live[int(slots[t, i])] = node
        column.sort(key=lambda node: columns[-1].index(node.parent))
        columns.append(column)
        live = next_live
    return columns


def _mark_answer(columns, answer):
    """Follows the answer back to the start; where nothing has finished there is none."""
    ends = [node for column in columns for node in column if node.fate == FINISHED]
    if answer is not None:
        answer = tuple(np.asarray(answer).tolist())
        ends = [node for node in ends if node.tokens == answer]
        if not ends:
            raise FieldError('answer', answer, 'is not among what this search has finished; give the trace and row it is of')
    node = max(ends, key=lambda node: node.score, default=None)
    while node:
        node.wins, node = True, node.parent


def _place(columns):
    """Columns from left to right, each as wide as its longest word, with the answer, or else their middle, at y = 0."""
    x = MARGIN
    for column in columns:
        width = 14 + max(max(_text_width(node.word, _size(node)), _text_width(_number(node), SMALL_SIZE)) for node in column)
        middle = next((i for i, node in enumerate(column) if node.wins), (len(column) - 1) / 2)
        for i, node in enumerate(column):
            node.x, node.y, node.width = x, (i - middle) * ROW, width
        x += width + GAP


def _text_width(text, size):
    """In pixels, rather too much than too little."""
    return size * sum(1.1 if unicodedata.east_asian_width(c) in 'WF' or c in 'mwMW@%…' else 0.8 if c.isupper() else 0.66
                      for c in text)


def _size(node):
    return SMALL_SIZE if node.fate == DROPPED else WORD_SIZE


def _number(node):
    return f'{node.score:.2f}' if node.parent else ''


def _edge(node):
    """From the right side of the parent to the left side of the node."""
    parent, bend = node.parent, node.x - GAP / 2
    color, width = ('#1f77b4', 3.5) if node.wins else ('#ddd' if node.fate == DROPPED else '#aaa', 1.2)
    return (f'<path d="M {parent.x + parent.width:.1f} {parent.y:.1f} C {bend:.1f} {parent.y:.1f} {bend:.1f} {node.y:.1f} '
            f'{node.x:.1f} {node.y:.1f}" fill="none" stroke="{color}" stroke-width="{width}"/>')


def _box(node):
    """The word over its number; what is not dropped in a box, what is finished with a frame around it."""
    middle, lines = node.x + node.width / 2, []
    color = '#999' if node.fate == DROPPED else '#222'
    if node.fate != DROPPED:
        frame = ' stroke="#222" stroke-width="1.5"' if node.fate == FINISHED else ''
        lines.append(f'<rect x="{node.x:.1f}" y="{node.y - BOX / 2:.1f}" width="{node.width:.1f}" height="{BOX}" rx="5" '
                     f'fill="{"#d6e6f4" if node.wins else "#f0f0f0"}"{frame}/>')
    lines.append(_text(middle, node.y if node.parent else node.y + WORD_SIZE / 3, _size(node), color, node.word))
    if node.parent:
        lines.append(_text(middle, node.y + 12, SMALL_SIZE, '#999' if node.fate == DROPPED else '#666', _number(node)))
    return '\n'.join(lines)


def _text(x, y, size, color, text, anchor=None):
    """y is where letters stand on."""
    side = f' text-anchor="{anchor}"' if anchor else ''
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}"{side}>{escape(text)}</text>'
