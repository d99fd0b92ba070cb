"""Interpretable cells: units of a recurrent language model that follow something a reader can name.

Karpathy, Johnson & Fei-Fei 2015 found units that count the position in a line, are on inside quotes or follow the nesting
depth, by looking. Here every unit is compared with every such feature: Pearson's correlation over a held-out text.
"""

import re
from typing import NamedTuple

import numpy as np

BRACKETS = {'(': 1, '[': 1, '{': 1, ')': -1, ']': -1, '}': -1}
CODE = re.compile(r'^ *((?:def|class|return|import|self\.\w+ =|if .*:$))', re.MULTILINE)
STRING_PREFIX = re.compile(r'(?<!\w)[rbfuRBFU]{0,2}$')  # what may stand before a quote that opens a string


class Finding(NamedTuple):
    """One unit and the feature it follows best."""

    unit: int
    feature: str
    correlation: float


def text_features(text):
    """{feature: [characters]}: what is known of a text after each of its characters has been read.

    line position: characters of the line so far. line end: 1 / (1 + characters until the next newline), which is the future.
    indentation: blanks at the start of the line, as far as read. quotes: 1 inside a string. comment: 1 after a #.
    depth: open brackets outside strings and comments. Strings, comments and brackets follow Python's rules; an apostrophe
    inside a word is none of them, so the features fit prose too. A text may begin inside a string, as a part of a file does:
    of the ways to read it the one is taken that has the fewest lines of code inside strings.
    """
    position, indentation = _lines(text)
    readings = [_nesting(text, opened) for opened in ('', '"""', "'''")]
    quotes, comment, depth = min(readings, key=lambda reading: _code(text, reading[0]))
    left = np.zeros(len(text))
    for i in range(len(text) - 2, -1, -1):
        left[i] = 0 if text[i + 1] == '\n' else left[i + 1] + 1
    return {'line position': position, 'line end': 1 / (1 + left), 'indentation': indentation, 'quotes': quotes,
            'comment': comment, 'depth': depth}


def _lines(text):
    """Position in the line and indentation, after each character."""
    position, indentation = np.zeros(len(text)), np.zeros(len(text))
    column, blanks = 0, 0
    for i, character in enumerate(text):
        if character == '\n':
            column = blanks = 0
        else:
            blanks += character == ' ' and blanks == column
            column += 1
        position[i], indentation[i] = column, blanks
    return position, indentation


def _code(text, quotes):
    """How many lines that look like code begin inside a string."""
    return sum(quotes[match.start(1)] for match in CODE.finditer(text))


def _nesting(text, opened=''):
    """Inside a string, inside a comment, open brackets: after each character. opened: the quotes before the first."""
    inside, comments, depths = np.zeros(len(text)), np.zeros(len(text)), np.zeros(len(text))
    comment, depth, i = False, 0, 0
    while i < len(text):
        taken = 1
        character = text[i]
        if opened:
            if character == '\\':
                taken = min(2, len(text) - i)
            elif text.startswith(opened, i):
                taken, opened = len(opened), ''
            elif character == '\n' and len(opened) == 1:
                opened = ''
        elif comment:
            comment = character != '\n'
        elif character == '#':
            comment = True
        elif character in '"\'' and STRING_PREFIX.search(text[max(0, i - 3):i]):
            opened = character * (3 if text.startswith(3 * character, i) else 1)
            taken = len(opened)
        else:
            depth = max(0, depth + BRACKETS.get(character, 0))
        now = slice(i, i + taken)
        inside[now], comments[now], depths[now] = bool(opened), comment, depth
        i += taken
    return inside, comments, depths


def correlations(activations, features):
    """Pearson's correlation of every unit with every feature, [N, F]; 0 where one of them never changes.

    activations: [T, N]. features: {name: [T]}.
    """
    units, marks = _standard(activations), _standard(np.stack(list(features.values()), axis=1))
    return units.T @ marks / len(units)


def _standard(x):
    """Mean 0 and deviation 1 along the first axis; what never changes becomes 0."""
    x = np.asarray(x, np.float64)
    x = x - x.mean(axis=0)
    deviation = x.std(axis=0)
    return x / np.where(deviation > 1e-9, deviation, np.inf)


def rank(matrix, names):
    """A Finding for every unit, the strongest first. matrix: correlations [N, F]; names: of the features."""
    best = np.abs(matrix).argmax(axis=1)
    found = [Finding(unit, names[f], float(matrix[unit, f])) for unit, f in enumerate(best)]
    return sorted(found, key=lambda finding: -abs(finding.correlation))


def best_of_each_feature(matrix, names):
    """The unit that follows each feature best, the strongest first."""
    best = np.abs(matrix).argmax(axis=0)
    found = [Finding(int(unit), names[f], float(matrix[unit, f])) for f, unit in enumerate(best)]
    return sorted(found, key=lambda finding: -abs(finding.correlation))


def typical(ranked):
    """The unit in the middle of the ranking: most are like it, and say little."""
    return ranked[len(ranked) // 2]


def liveliest(features, length):
    """Where the `length` steps begin in which the features change most, compared with all of the text."""
    marks = _standard(np.stack(list(features.values()), axis=1))  # [T, F]
    starts = range(0, max(1, len(marks) - length + 1), max(1, length // 8))
    return max(starts, key=lambda start: marks[start:start + length].std(axis=0).mean())


def table(found, label=str):
    """The findings as lines of text; label: turns a unit's number into its name."""
    rows = [(label(f.unit), f.feature, f'{f.correlation:+.2f}') for f in found]
    width = max([len('unit'), *(len(row[0]) for row in rows)])
    return '\n'.join(f'{unit:{width}}  {feature:14}{r:>6}' for unit, feature, r in [('unit', 'feature', 'r'), *rows])
