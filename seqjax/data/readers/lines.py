"""The lines of a file, plain or compressed, and what became of them: read, left out, or refused with a reason."""

import collections
import gzip
import os
import zlib

from seqjax.errors import FieldError

MAX_LINE = 1 << 20  # characters; a longer line is malformed, and never in memory as a whole
_TOO_LONG = f'is longer than {MAX_LINE:,} characters'
WAY_OUT = 'fix it, or set config.data.on_error=skip'


class Malformed(Exception):
    """Why a line cannot be used: a reason, by which it is counted, and a detail that differs from line to line."""

    def __init__(self, reason, detail=''):
        super().__init__(f'{reason}: {detail}' if detail else reason)
        self.reason, self.detail = reason, detail


class File:
    """One file while it is read.

    path: as the user wrote it; '~' is expanded here. field: the field of the config that names it. on_error: at a malformed
    line, 'stop' or 'skip'. encoding: of its characters. left_out: {what: number of lines} that are no part of a record. skipped: {reason: their lines}.
    """

    def __init__(self, path, on_error, field='data.source', encoding='utf-8'):
        self.path, self.on_error, self.field, self.encoding = path, on_error, field, encoding
        self.left_out = collections.Counter()
        self.skipped = collections.defaultdict(list)

    @property
    def name(self):
        return os.path.basename(self.path)

    def error(self, reason, number=None):
        """A FieldError that names the file and, where there is one, the line."""
        value = f'file:{self.path}' if self.field == 'data.source' else self.path
        return FieldError(self.field, value, reason if number is None else f'line {number}: {reason}')

    def missing(self):
        return self.error(f'no such file (looked in {os.getcwd()})')

    def refuse(self, number, problem):
        """Stops at a malformed line, or counts it."""
        if self.on_error == 'stop':
            raise self.error(f'{problem}; {WAY_OUT}', number) from None
        self.skipped[problem.reason].append(number)

    def lines(self):
        """(number, text) of every line without its end, from 1; (number, Malformed) where the bytes are no text.

        Damage after which nothing can be read stops always.
        """
        number = 0
        try:
            with self._open() as file:
                for number, line in enumerate(_pieces(file), 1):
                    yield number, _text(number, line, self.encoding)
        except FileNotFoundError:
            raise self.missing() from None
        except IsADirectoryError:
            raise self.error('is a directory, and a file is needed') from None
        except EOFError:
            raise self.error('the compressed data ends here, and too early; copy the file again', number + 1) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self.error(f'the compressed data is damaged ({error}); copy the file again', number + 1) from None
        except OSError as error:
            raise self.error(f'cannot be read: {error.strerror or error}', number + 1 if number else None) from None

    def is_blank(self, text):
        """Whether a line has nothing but white space; it is counted."""
        blank = not isinstance(text, Malformed) and not text.strip()
        if blank:
            self.left_out['blank line'] += 1
        return blank

    def check_records(self, records):
        """Stops where nothing was read."""
        if not records:
            empty = not self.left_out and not self.skipped
            raise self.error('the file is empty' if empty else f'has nothing to learn from: {self.summary(0)}')

    def summary(self, records):
        """'train.tsv: 6,920 records, 1 blank line (skipped 2: the label is empty, in lines 3, 17)'."""
        parts = [plural(records, 'record')] + [plural(count, what) for what, count in self.left_out.items()]
        skipped = [f'{len(lines):,}: {reason}, in {_first(lines)}' for reason, lines in self.skipped.items()]
        return f'{self.name}: {", ".join(parts)}' + (f' (skipped {"; ".join(skipped)})' if skipped else '')

    def _open(self):
        path = os.path.expanduser(self.path)
        file = open(path, 'rb')
        if not path.endswith('.gz'):
            return file
        with file:
            magic = file.read(2)
        if magic not in (b'', b'\x1f\x8b'):  # what gzip itself says of this is the same as for damage at the end
            raise self.error('is not compressed, though its name ends in .gz; rename it')
        return gzip.open(path, 'rb')


def sound(item):
    """The item, unless it is a Malformed: that is raised."""
    if isinstance(item, Malformed):
        raise item
    return item


def check_encoding(encoding):
    """Refuses an encoding that files of lines cannot have."""
    try:
        sound = '\n'.encode(encoding) == b'\n'
    except LookupError:
        sound = False
    if not sound:
        raise FieldError('data.encoding', encoding, "is no encoding in which a line end is one byte; write 'utf-8', 'latin-1' or "
                         "'cp1252', or convert the file first")


def with_end(lines):
    """The lines and (None, None), for records that end where the next begins."""
    yield from lines
    yield None, None


def plural(count, noun):
    return f'{count:,} {noun}' + ('' if count == 1 else 's')


def _pieces(file):
    """The bytes of every line; None for one that is too long, which is passed over piece by piece."""
    limit = 4 * MAX_LINE + 5  # bytes of so many characters at most, with a byte order mark and a line end
    while line := file.readline(limit):
        if len(line) < limit or line.endswith(b'\n'):
            yield line
            continue
        while line and not line.endswith(b'\n'):
            line = file.readline(limit)
        yield None


def _text(number, line, encoding):
    if line is None:
        return Malformed(_TOO_LONG)
    content = line.rstrip(b'\n').removesuffix(b'\r')
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        return Malformed(f'is not {"UTF-8" if encoding == "utf-8" else encoding}', f'byte {error.start + 1} is 0x{content[error.start]:02x}')
    if number == 1:
        text = text.removeprefix('\ufeff')  # the byte order mark of some editors
    if '\0' in text:
        return Malformed('has a NUL byte', f'byte {content.index(0) + 1}')
    if '\r' in text:
        return Malformed('has a carriage return that ends no line', f'byte {content.index(13) + 1}')
    return text if len(text) <= MAX_LINE else Malformed(_TOO_LONG)


def _first(lines, most=3):
    """'line 3', 'lines 3, 17', 'lines 3, 5, 7, ...'."""
    shown = ', '.join(map(str, lines[:most])) + (', ...' if len(lines) > most else '')
    return f'line {shown}' if len(lines) == 1 else f'lines {shown}'
