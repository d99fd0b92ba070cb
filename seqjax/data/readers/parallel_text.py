"""Parallel files: line i of one is the translation of line i of the other.

    DIR/train.{de,en}.gz               from the first language to the second; a part of the lines is held out
    DIR/{train,dev,test}.{de,en}.gz    the same with two or three parts, which come first
"""

import contextlib
import itertools
import re

from seqjax.data.readers.columns import Record
from seqjax.data.readers.lines import File, Malformed, plural
from seqjax.errors import FieldError

_BRACES = re.compile(r'([^{}]*) (?: \{([^{}]*)\} ([^{}]*) )? \{([^{}]*)\} ([^{}]*)', re.VERBOSE)


class ParallelFiles:
    """Two files that are read side by side, in the place of the one `File` that other formats have."""

    def __init__(self, paths, on_error, encoding='utf-8'):
        self.source, self.target = (File(path, on_error, encoding=encoding) for path in paths)

    def records(self):
        """(number, Record) of every pair of lines. A line that cannot be used is refused in the name of its own file."""
        with contextlib.closing(self.source.lines()) as sources, contextlib.closing(self.target.lines()) as targets:
            for number, lines in enumerate(itertools.zip_longest(sources, targets), 1):
                if None in lines:
                    raise self._of_different_lengths(number, lines.index(None), (sources, targets))
                for file, (_, text) in zip((self.source, self.target), lines):
                    problem = text if isinstance(text, Malformed) else None if text.strip() else Malformed('is empty')
                    if problem:
                        file.refuse(number, problem)
                        break
                else:
                    yield number, Record(lines[0][1], lines[1][1])

    def refuse(self, number, problem):
        self.source.refuse(number, problem)

    def check_records(self, records):
        """Stops where nothing was read."""
        if not records:
            skipped = self.source.skipped or self.target.skipped
            raise self.source.error(f'has nothing to learn from: {self.summary(0)}' if skipped else 'the file is empty')

    def summary(self, records):
        return f'{self.source.summary(records)}; {self.target.summary(records)}'

    def _of_different_lengths(self, number, ended, sides):
        """The error where one of the two (`ended`: 0 or 1) has no line of that number."""
        files = self.source, self.target
        longer = number + sum(1 for _ in sides[1 - ended])
        return files[ended].error(f'has {plural(number - 1, "line")}, and {files[1 - ended].name} has {longer:,}; line by '
                                  'line they must be pairs')


def parallel_paths(pattern):
    """[(source path, target path)] of every part."""
    refuse = lambda reason: FieldError('data.source', f'file:{pattern}', reason)
    found = _BRACES.fullmatch(pattern)
    if not found:
        raise refuse('parallel files have one pair of braces or two; write DIR/train.{de,en} or '
                     'DIR/{train,dev,test}.{de,en}')
    begin, parts, middle, languages, end = found.groups(default='')
    parts, languages = (parts.split(',') if found[2] is not None else ['']), languages.split(',')
    if len(languages) != 2:
        raise refuse(f'has {plural(len(languages), "language")} in braces; write two, of sources and of targets, after the '
                     'parts: DIR/train.{de,en} or DIR/{train,dev,test}.{de,en}')
    if languages[0] == languages[1]:
        raise refuse('has sources and targets in the same file; write two languages')
    if found[2] is not None and len(parts) not in (2, 3):
        raise refuse(f'has {plural(len(parts), "part")} in braces; write two (train, validation) or three '
                     '(train, validation, test)')
    return [tuple(begin + part + middle + language + end for language in languages) for part in parts]
