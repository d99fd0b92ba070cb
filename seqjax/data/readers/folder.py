"""A folder with a file for every class, NAME.txt, and a sequence in every line of it."""

import os
import re

from seqjax.data.readers.columns import Record
from seqjax.data.readers.lines import File, Malformed, plural
from seqjax.errors import FieldError


def read_folder(path, options):
    """[(File, its records)] for every class, and what is to be said of other files."""
    try:
        names = sorted(os.listdir(os.path.expanduser(path)))
    except OSError as error:
        raise FieldError('data.source', f'file:{path}', f'cannot be read: {error.strerror}') from None
    found = {name: re.fullmatch(r'(.+)\.txt(\.gz)?', name) for name in names}
    classes = {name: match[1] for name, match in found.items() if match}
    if not classes:
        raise FieldError('data.source', f'file:{path}', 'has no file NAME.txt or NAME.txt.gz, one for every class')
    for name in classes:
        if f'{name}.gz' in classes:
            raise FieldError('data.source', f'file:{path}', f'has {name} and {name}.gz; leave one')
    files = {File(os.path.join(path, name), options.on_error, encoding=options.encoding): label for name, label in classes.items()}
    others = [name for name in names if name not in classes]
    note = f'{plural(len(others), "other file")} in the folder: {", ".join(others)}' if others else ''
    return [(file, _records(file, label)) for file, label in files.items()], note


def _records(file, label):
    for number, text in file.lines():
        if not file.is_blank(text):
            yield number, text if isinstance(text, Malformed) else Record(text, label)
