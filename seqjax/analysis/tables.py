"""Tables as lines of text."""


def columns(rows, right=()):
    """Rows of texts as lines, each column as wide as its widest text; those in `right` end at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ['  '.join(text.rjust(width) if number in right else text.ljust(width)
                      for number, (text, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def in_units(value, unit=''):
    """1234567 -> '1.23 M'"""
    for size, name in ((1e15, 'P'), (1e12, 'T'), (1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
        if value >= size:
            return f'{value / size:.3g} {name}{unit}'
    return f'{value:.3g} {unit}'.rstrip()
