"""TSV and CSV: a record a row, with or without a header."""

import csv

from seqjax.data.readers.columns import Record, input_places, is_header, place
from seqjax.data.readers.examples import TextPair
from seqjax.data.readers.lines import Malformed, plural


def read_tsv(file, options):
    """Cells between tabs, as they stand: quotes mean nothing."""
    return _records(file, options, ((number, text if isinstance(text, Malformed) else text.split('\t'))
                                    for number, text in file.lines() if not file.is_blank(text)))


def read_csv(file, options):
    """Cells between commas; one in quotes may have commas, doubled quotes and line ends (RFC 4180)."""
    return _records(file, options, _csv_rows(file))


def table_rows(file):
    """(number, cells or Malformed) of every row of a table: a .csv, or else cells between tabs."""
    if file.path.removesuffix('.gz').endswith('.csv'):
        return _csv_rows(file)
    return ((number, text if isinstance(text, Malformed) else text.split('\t'))
            for number, text in file.lines() if not file.is_blank(text))


def _records(file, options, rows):
    """(number, Record or Malformed) of every row after the header, where there is one."""
    columns = None
    for number, cells in rows:
        if columns is None:
            if isinstance(cells, Malformed):
                raise file.error(f'{cells}; fix it: without the first row the columns are not known', number)
            header = is_header(cells, options)
            if len(cells) > 1 or header:
                columns = len(cells)
                at = _places(file, options, cells if header else (), columns)
            if header:
                file.left_out['header'] += 1
                continue
        if isinstance(cells, Malformed):
            yield number, cells
        elif len(cells) != (columns or 2):
            yield number, Malformed(f'has {plural(len(cells), "column")} and {columns or 2} are needed')
        else:
            yield number, Record(**{use: _cell(cells, i) for use, i in at.items() if i is not None})


def _cell(cells, at):
    """A cell, or two of them."""
    return TextPair(*(cells[i] for i in at)) if isinstance(at, tuple) else cells[at]


def _places(file, options, names, columns):
    first, last = (None, None) if names else (0, columns - 1)
    split = place(file, options, 'split', names, columns)
    return dict(inputs=input_places(file, options, names, columns, first),
                target=place(file, options, 'target', names, columns, last), split=split,
                validation=None if split is None else place(file, options, 'validation', names, columns))


def _csv_rows(file):
    """(number of the line where it begins, cells or Malformed) of every row."""
    lines = file.lines()
    for number, text in lines:
        if isinstance(text, Malformed):
            yield number, text
        elif not file.is_blank(text):
            try:
                yield number, next(csv.reader(_row(file, number, text, lines), strict=True))
            except csv.Error as error:
                yield number, Malformed('is no CSV', str(error))


def _row(file, begun, text, lines):
    """The lines of a row, as a csv.reader asks for them: it wants another only while a quote is open."""
    yield text + '\n'
    for number, more in lines:
        if isinstance(more, Malformed):
            raise file.error(f'{more}; fix it: where the quotes end that line {begun} opens is not known', number)
        yield more + '\n'
    raise file.error('a quote is opened here and never closed', begun)
