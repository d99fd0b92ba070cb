"""The standard library's own source, every character labelled with the kind of token that it is part of.

    for x in form:  # for x    keyword x 3, space, name, space, keyword x 2, space, name x 4, operator, ...

What a character is depends on what stands before it: `for` is a keyword, the beginning of `form`, and neither in a comment
or a string. Karpathy et al. 2015 found cells in a language model of source code that remember just this, a quote that was
opened or a comment; here it is asked for. The labels are those of Python's own `tokenize`, so none is wrong.

The library changes a little from one version of Python to the next, and the set with it.
"""

import io
import itertools
import keyword
import pathlib
import platform
import random
import sysconfig
import tokenize

from seqjax.data.embedded.parts import three_parts
from seqjax.data.readers.examples import Example, Examples

LONGEST = 200  # characters of an example
KINDS = {tokenize.NAME: 'name', tokenize.NUMBER: 'number', tokenize.STRING: 'string', tokenize.COMMENT: 'comment',
         tokenize.OP: 'operator'}


def python_token_examples(task, *, held_out, seed):
    """Runs of whole statements, one label a character. A module is in one part only; `seed` deals the modules out."""
    modules = [path.read_text('ascii') for path in _modules()]
    random.Random(seed).shuffle(modules)
    seen = set()  # a run that two modules share is kept where it comes first, so that no part has one of another's

    def examples(modules):
        for source in modules:
            for example in labelled_runs(source):
                if example.inputs not in seen:
                    seen.add(example.inputs)
                    yield example

    train, validation, test = (list(examples(part)) for part in three_parts(modules, held_out))
    kept, read = sum(map(len, seen)), sum(map(len, modules))
    return Examples(train, validation, test, (
        f'{len(modules)} modules of Python {platform.python_version()}: {kept:,} of their {read:,} characters in '
        f'{len(seen):,} different runs; statements longer than {LONGEST} characters were left out'))


def labelled_runs(source):
    """Consecutive statements of a module, as many as LONGEST characters hold."""
    labels, ends = token_labels(source)
    runs = []
    begin = end = 0
    for start, stop in zip([0, *ends], ends):
        if stop - begin > LONGEST:
            runs.append((begin, end))
            begin = start
        if stop - start > LONGEST:  # nor is it the beginning of the next run
            begin = stop
        end = stop
    runs.append((begin, end))
    return [Example(source[begin:end], tuple(labels[begin:end])) for begin, end in runs if source[begin:end].strip()]


def token_labels(source):
    """The kind of every character, and where the statements end: a bracket or a string that goes on ends none.

    space is all that is in no token: blanks, line ends, and the backslash that joins two lines.
    """
    lines = list(itertools.accumulate(map(len, io.StringIO(source)), initial=0))  # where each begins
    labels, ends = ['space'] * len(source), []
    brackets, formatted = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        begin, end = (lines[row - 1] + column for row, column in (token.start, token.end))
        name, kind = tokenize.tok_name[token.type], KINDS.get(token.type)
        if name.endswith('STRING_START'):  # from Python 3.12 on an f-string is many tokens; here it is one string
            formatted.append(begin)
        elif name.endswith('STRING_END'):
            begin, kind = formatted.pop(), 'string'
        if kind:
            labels[begin:end] = [('keyword' if keyword.iskeyword(token.string) else kind)] * (end - begin)
        if token.type == tokenize.OP:
            brackets += (token.string in '([{') - (token.string in ')]}')
        if token.type == tokenize.NEWLINE or token.type == tokenize.NL and not brackets:
            ends.append(lines[token.start[0]])
    return labels, ends


def _modules():
    """Every top-level module, in the order of their names, those that are pure ASCII."""
    files = sorted(pathlib.Path(sysconfig.get_path('stdlib')).glob('*.py'))
    return [path for path in files if path.read_bytes().isascii()]
