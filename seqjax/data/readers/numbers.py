"""Sequences of numbers: tables with a row for every time step, tables with a row for every sequence, and lists of JSON.

    steps     a row a time step and a column a feature; `config.data.sequence_column` says which rows are one sequence
    series    a row a whole sequence of one feature, a column a time step; cells at the end may be empty
    jsonl     {"sequence": [[0.1, 2.0], [0.3, 1.9]], "label": "walking"}, or a list of numbers for one feature

All become float32 [T, D].
"""

import contextlib
import dataclasses
import datetime
import math
from typing import Any

import numpy as np

from seqjax.data.readers.columns import Record, customary, place
from seqjax.data.readers.lines import Malformed, plural, sound
from seqjax.data.readers.tables import table_rows
from seqjax.errors import FieldError, suggestion

SEQUENCES = 'sequence_id', 'series_id', 'series', 'id'  # customary names of the column that says which sequence a row is of
TIMES = 'time', 'timestamp', 'date', 'datetime', 'step', 't'  # and of those that say when it was
CLOCKS = 3600  # seconds that dates may go back: clocks are put back in autumn
LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class PerStep:
    """What stands in the target column in every row of a sequence."""

    targets: tuple[Any, ...]

    def one(self) -> Any:
        """The one target of all of them."""
        if len({*self.targets}) > 1:
            raise Malformed('the target changes within a sequence', ' and '.join(map(repr, dict.fromkeys(self.targets)))[:60])
        return self.targets[0]


def frames_of(value: list) -> np.ndarray:
    """float32 [T, D] of a list of JSON with lists of numbers, or with numbers."""
    rows = [row if isinstance(row, list) else [row] for row in value]
    for step, row in enumerate(rows, 1):
        if len(row) != len(rows[0]) or not row:
            raise Malformed('the steps of a sequence have different numbers of features',
                            f'step {step} has {len(row)}, step 1 has {len(rows[0])}')
        for number in row:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise Malformed('a step of the input has something else than numbers', f'step {step}: {number!r:.40}')
            if not abs(number) <= LARGEST:
                raise Malformed('a number of the input is not finite', f'step {step}: {number!r:.40}')
    return np.array(rows, np.float32)


def read_steps(file, options, labelled=True):
    """(line where it begins, Record or Malformed) of every sequence of a table, a row a time step.

    labelled: whether there is a target; to be forecast, a column is a feature whatever its name.
    """
    names, columns, found, last, key = None, None, {}, {}, ''
    for line, cells in table_rows(file):
        if names is None:
            cells = _first_row(file, line, cells)
            header = not all(map(_is_number, cells))
            names = [cell.strip() for cell in cells] if header else [str(i) for i in range(1, len(cells) + 1)]
            columns = _columns(file, names, options, labelled)
            if header:
                file.left_out['header'] += 1
                continue
        try:  # a row of which that is not known is taken to be of the sequence of the row before
            if len(sound(cells)) != len(names):
                raise Malformed(f'has {plural(len(cells), "column")} and {len(names)} are needed')
            key = cells[columns['sequence']] if columns['sequence'] is not None else ''
            row = [_number(cells[i], names[i]) for i in columns['features']]
            of = lambda use: None if columns[use] is None else cells[columns[use]]
            begun = found.setdefault(key, (line, [], [], of('split')))
            if isinstance(begun, Malformed):
                continue
            if of('split') != begun[3]:
                raise Malformed('the split changes within a sequence', repr(of('split')))
            time = _time(of('time'))
            if time is not None and time < last.get(key, -math.inf):
                raise Malformed('the time goes back within a sequence', f'{of("time")!r:.40}; sort the '
                                'rows, or name the column of sequences in config.data.sequence_column')
            slack = 0 if time is None or _is_number(of('time')) else CLOCKS
            last[key] = -math.inf if time is None else time - slack
            begun[1].append(row)
            begun[2].append(of('target'))
        except Malformed as problem:
            if not isinstance(found.get(key), Malformed):
                yield line, problem
            found[key] = problem  # the whole sequence is: a step of it is not known
    for begun in found.values():
        if not isinstance(begun, Malformed):
            line, rows, targets, split = begun
            yield line, Record(np.array(rows, np.float32), PerStep(tuple(targets)), split)


def read_series(file, options):
    """(line, Record or Malformed) of every row of a table that is a sequence of one feature."""
    names, at = None, {}
    for line, cells in table_rows(file):
        if names is None:
            cells = _first_row(file, line, cells)
            header = sum(map(_is_number, cells)) < len(cells) / 2
            names = [cell.strip() for cell in cells] if header else ()
            at = {use: place(file, options, use, names, len(cells), None if use == 'split' else 0 if use == 'target' else -1)
                  for use in ('target', 'split')}
            if header:
                file.left_out['header'] += 1
                continue
        try:
            steps = [cell for i, cell in enumerate(sound(cells)) if i not in at.values()]
            while steps and not steps[-1].strip():
                steps.pop()
            if not steps:
                raise Malformed('the input is empty')
            numbers = [[_number(cell, f'step {i}')] for i, cell in enumerate(steps, 1)]
            of = lambda use: None if at[use] is None else cells[at[use]]
            yield line, Record(np.array(numbers, np.float32), of('target'), of('split'))
        except Malformed as problem:
            yield line, problem


def _columns(file, names, options, labelled):
    """{'features': [...], 'sequence', 'target', 'split', 'time': the number of a column, or None}."""
    lowered = [name.lower() for name in names]
    found = {}
    for use, usual in (('sequence', SEQUENCES), ('target', ()), ('split', ())):
        wanted = getattr(options, f'{use}_column')
        if use == 'target' and not labelled:
            if wanted:
                raise FieldError('data.target_column', wanted, 'every feature of a series is predicted; '
                                 'leave it empty, and name features in config.data.input_column')
            found[use] = None
            continue
        name = wanted or next((name for name in usual if name in lowered), '') or (use != 'sequence' and customary(names, use)) or ''
        if wanted and wanted not in names:
            raise FieldError(f'data.{use}_column', wanted, f'{file.path} has no such column; {suggestion(wanted, names)}')
        found[use] = names.index(name) if name in names else lowered.index(name) if name else None
    times = [i for i, name in enumerate(lowered) if name in TIMES and i not in found.values()]
    found['time'] = times[0] if len(times) == 1 else None
    if options.input_column:
        wanted = [name.strip() for name in options.input_column.split(',')]
        for name in wanted:
            if name not in names:
                raise FieldError('data.input_column', options.input_column,
                                 f'{file.path} has no column {name!r}; {suggestion(name, names)}')
        return {**found, 'features': [names.index(name) for name in wanted]}  # a time may be one
    features = [i for i, name in enumerate(lowered) if i not in found.values() and name not in TIMES]
    if not features:
        raise file.error('has no column of numbers; name some in config.data.input_column')
    return {**found, 'features': features}


def _first_row(file, line, cells):
    if isinstance(cells, Malformed):
        raise file.error(f'{cells}; fix it: without the first row the columns are not known', line)
    return cells


def _time(cell):
    """A number, or the seconds of an ISO 8601 date; None where it is neither."""
    if cell is None or _is_number(cell):
        return cell and float(cell)
    with contextlib.suppress(ValueError):
        date = datetime.datetime.fromisoformat(cell.strip())
        return (date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp()
    return None


def _number(cell, name):
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not abs(number) <= LARGEST or '_' in cell:
        reason = 'a number of the input is not finite' if _is_number(cell) else 'a cell of the input is no number'
        raise Malformed(reason, f'{name}: {cell!r:.40}')
    return number


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True
