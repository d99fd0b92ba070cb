"""Lines of --input, a few thousand at a time, and answers to them on standard output."""

import contextlib
import gzip
import itertools
import json
import os
import sys
import zlib

from seqjax.errors import UserError

LINES_AT_ONCE = 4096


@contextlib.contextmanager
def open_input(request):
    """The lines of --input, also of a .gz; a byte that is no UTF-8 becomes a replacement character: no line is lost."""
    name = request.flags.input
    if not name:
        raise UserError(f'--mode={request.mode}: give --input=FILE with a line for every sequence, or --input=- to read them '
                        'from a pipe')
    if name == '-':
        sys.stdin.reconfigure(encoding='utf-8-sig', errors='replace', newline='\n')
        yield sys.stdin
        return
    opened = gzip.open if name.endswith('.gz') else open
    try:
        lines = opened(name, 'rt', encoding='utf-8-sig', errors='replace', newline='\n')
    except OSError as error:
        raise UserError(f'--input={name}: cannot be read ({error.strerror})') from None
    with lines:
        try:
            yield lines
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f'--input={name}: is damaged, or not compressed though its name ends in .gz ({error}); '
                            'copy it again, or rename it') from None


def print_objects(answers):
    """A line of JSON for every answer."""
    escaped = not (sys.stdout.encoding or 'utf-8').lower().startswith('utf')
    print_lines(json.dumps(answer, ensure_ascii=escaped) for answer in answers)


def print_lines(lines):
    """Prints until there are no more, or the reader has seen enough, as `head` has."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python still flushes when it ends


def answered(name, lines, noticed, answer, *, unit='line', per_line=1):
    """Yields the answers to all lines in their order, with a progress bar `name`.

    answer(lines, done, bar) yields those to a piece, before which there were `done` lines; noticed: `Noticed`, whose sentences
    are said at the end. per_line: units of the bar that a line has.
    """
    from seqjax.train.progress import ProgressBar  # here, because printing needs none

    with ProgressBar(name, None, unit=unit) as bar:
        done = 0
        for piece in _pieces(lines):
            bar.update(done * per_line, '' if done else 'compiling')
            yield from answer(piece, done, bar)
            done += len(piece)
            bar.update(done * per_line)
        for sentence in noticed.sentences():
            bar.say(sentence)


def _pieces(lines):
    """Lists of at most LINES_AT_ONCE lines, without their ends."""
    lines = iter(lines)
    while piece := [line.rstrip('\r\n') for line in itertools.islice(lines, LINES_AT_ONCE)]:
        yield piece
