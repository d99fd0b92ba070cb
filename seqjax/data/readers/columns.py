"""Which column of a file is the input, which the target and which the split: by name, by number or by custom.

Two input columns, 'premise,hypothesis' or '1,2', are two texts that are judged together.
"""

import dataclasses
from typing import Any

from seqjax.data.readers.lines import Malformed
from seqjax.errors import FieldError, suggestion

CUSTOMARY = {
    'input': ('sequence', 'text', 'sentence', 'input', 'tokens', 'words', 'source'),
    'target': ('target', 'label', 'class', 'tags', 'labels'),
    'split': ('split', 'set'),
    'validation': ('validation',),  # of the training records, which are for validation: FLIP, Dallago et al. 2021
}
_PARTS = {'train': 'train', 'training': 'train', 'validation': 'validation', 'valid': 'validation', 'val': 'validation',
          'dev': 'validation', 'development': 'validation', 'test': 'test', 'testing': 'test'}
_TRUTHS = {'true': True, '1': True, 'false': False, '0': False, '': False, 'none': False}


@dataclasses.dataclass(frozen=True)
class Record:
    """What a file says of one sequence, as it stands there. split, validation: None where it says nothing of them.

    inputs: a TextPair of whatever stands there, where two columns are named.
    """

    inputs: Any
    target: Any
    split: Any = None
    validation: Any = None

    def part(self):
        """'train', 'validation' or 'test'."""
        if self.split is None:
            return 'train'
        part = _PARTS.get(str(self.split).strip().lower())
        if part is None:
            raise Malformed('the split is none of train, validation and test', repr(self.split))
        validation = _TRUTHS.get(str('' if self.validation is None else self.validation).strip().lower())
        if validation is None:
            raise Malformed('the validation column is neither true nor false', repr(self.validation))
        return 'validation' if part == 'train' and validation else part


def customary(names, use):
    """The one of `names` that is customary for a use, whatever its case, or None."""
    lowered = {name.strip().lower(): name for name in names}
    return next((lowered[name] for name in CUSTOMARY[use] if name in lowered), None)


def is_header(cells, options):
    """Whether the first row of a table has names: the config says one, or one of them is customary."""
    wanted = *named(options.input_column, cells), options.target_column, options.split_column
    return (any(name and not name.isdecimal() for name in wanted)
            or any(customary(cells, use) is not None for use in CUSTOMARY))


def named(wanted, names):
    """['a', 'b'] of 'a,b', which is one column where one of `names` is just that."""
    return [wanted] if wanted in names else [name.strip() for name in wanted.split(',')]


def input_places(file, options, names, columns, default=None):
    """The index of the input column as `place` finds it, or (first, second) where the config names two."""
    wanted = named(options.input_column, names)
    if len(wanted) == 1:
        return place(file, options, 'input', names, columns, default)
    found = [place(file, options, 'input', names, columns, wanted=name) for name in wanted if name]
    return tuple(two(options.input_column, found))


def two(wanted, columns):
    """The columns that `config.data.input_column` names, where they are two."""
    if len(columns) != 2 or columns[0] == columns[1]:
        raise FieldError('data.input_column', wanted, "write one column, or two different ones as in 'a,b'")
    return columns


def place(file, options, use, names, columns, default=None, wanted=None):
    """The index of the column for a use: the one the config names, the customary one of `names`, or `default`.

    names: of the columns, or () where they have none. columns: how many there are. wanted: instead of what the config names.
    """
    field = f'{use}_column'
    wanted = getattr(options, field, '') if wanted is None else wanted
    name = wanted or customary(names, use)
    if name in names:
        if names.count(name) > 1:
            raise FieldError(f'data.{field}', wanted, f'{file.path} has two columns called {name!r}; write a number')
        return names.index(name)
    if wanted.isdecimal():
        if not 1 <= int(wanted) <= columns:
            raise FieldError(f'data.{field}', wanted, f'{file.path} has columns 1 to {columns}')
        return int(wanted) - 1
    if wanted:
        way_out = suggestion(wanted, names) if names else f'its columns have no names: write a number from 1 to {columns}'
        raise FieldError(f'data.{field}', wanted, f'{file.path} has no such column; {way_out}')
    if default is None and use in ('input', 'target'):
        raise FieldError(f'data.{field}', '', f'{file.path} has none of the columns {", ".join(CUSTOMARY[use])}; '
                         f'write one of: {", ".join(names)}')
    return default
