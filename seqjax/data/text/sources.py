"""Where plain text comes from: the embedded default, a file, or a TFDS set.

    python       the standard library's own source, about 4 MB on any machine that runs Python
    file:PATH    a UTF-8 text file, also .gz
    tfds:NAME    a set of TensorFlow Datasets with one text feature, read without TensorFlow
"""

import gzip
import os
import pathlib
import zlib

from seqjax.data.readers.tfds import Text, tfds_text
from seqjax.data.sources import OF_TEXT, SOURCES, names_of
from seqjax.errors import FieldError


def load_text(source, *, held_out=0.1, directory='', column=''):
    """Reads `source`; where it has no validation split of its own, the last `held_out` of it is held out.

    directory: where TFDS keeps its sets. column: the text feature of a set that has several.
    """
    kind, _, name = source.partition(':')
    if source in SOURCES:
        text = SOURCES[source]('', dict(held_out=held_out))
    elif kind == 'file' and name:
        text = _file_text(name)
    elif kind == 'tfds' and name:
        text = tfds_text(name, directory, column)
    else:
        raise FieldError('data.source', source, "write 'python', 'file:PATH' or 'tfds:NAME', or name an embedded set: "
                         f'{names_of(*OF_TEXT)}')
    if isinstance(text, Text):
        return text
    cut = round(len(text) * (1 - held_out))
    return Text(text[:cut], text[cut:])


def _file_text(name):
    path = pathlib.Path(name).expanduser()
    opened, lines = gzip.open if path.suffix == '.gz' else open, []
    try:
        with opened(path, 'rb') as file:
            lines.extend(file)
        text = b''.join(lines).decode('utf-8')
    except FileNotFoundError:
        raise FieldError('data.source', f'file:{name}', f'no such file (looked in {os.getcwd()})') from None
    except UnicodeDecodeError as error:
        line = error.object.count(b'\n', 0, error.start) + 1
        raise FieldError('data.source', f'file:{name}', f'line {line}: byte {error.start} of the file is not UTF-8; convert it '
                         'first') from None
    except (EOFError, zlib.error) as error:  # from a damaged .gz
        raise FieldError('data.source', f'file:{name}', f'line {len(lines) + 1}: the compressed data ends here or is damaged '
                         f'({error}); copy the file again') from None
    except OSError as error:
        raise FieldError('data.source', f'file:{name}', f'cannot be read: {error}') from None
    if not text:
        raise FieldError('data.source', f'file:{name}', 'the file is empty')
    return text
