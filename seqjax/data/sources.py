"""Where text comes from: the embedded default, a file, or a TFDS set.

    python       the standard library's own source, about 4 MB on any machine that runs Python
    file:PATH    a UTF-8 text file, also .gz
    tfds:NAME    a set of TensorFlow Datasets with one text feature, read without TensorFlow
"""

import dataclasses
import gzip
import os
import pathlib
import socket
import sysconfig
import urllib.parse
import urllib.request
import zlib

from seqjax.data.synthetic import GENERATORS
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Text:
    """A text cut in two: what is trained on and what is held out."""

    train: str
    validation: str


def load_text(source, *, held_out=0.1, directory=''):
    """Reads `source`; where it has no validation split of its own, the last `held_out` of it is held out."""
    kind, _, name = source.partition(':')
    if source == 'python':
        text = _python_text()
    elif kind == 'file' and name:
        text = _file_text(name)
    elif kind == 'tfds' and name:
        text = _tfds_text(name, directory)
    else:
        raise FieldError('data.source', source, "write 'python', 'file:PATH' or 'tfds:NAME', or name a generated set: "
                         f'{", ".join(GENERATORS)}')
    if isinstance(text, Text):
        return text
    cut = round(len(text) * (1 - held_out))
    return Text(text[:cut], text[cut:])


def _python_text():
    """Every top-level module of the standard library, in the order of their names, those that are pure ASCII."""
    files = sorted(pathlib.Path(sysconfig.get_path('stdlib')).glob('*.py'))
    return '\n'.join(path.read_text('ascii') for path in files if path.read_bytes().isascii())


def _file_text(name):
    path = pathlib.Path(name).expanduser()
    opened = gzip.open if path.suffix == '.gz' else open
    try:
        with opened(path, 'rb') as file:
            text = file.read().decode('utf-8')
    except FileNotFoundError:
        raise FieldError('data.source', f'file:{name}', f'no such file (looked in {os.getcwd()})') from None
    except UnicodeDecodeError as error:
        raise FieldError('data.source', f'file:{name}', f'byte {error.start} is not UTF-8; convert the file first') from None
    except (OSError, EOFError, zlib.error) as error:  # the last two from a damaged .gz
        raise FieldError('data.source', f'file:{name}', f'cannot be read: {error}') from None
    if not text:
        raise FieldError('data.source', f'file:{name}', 'the file is empty')
    return text


def _tfds_text(name, directory):
    import tensorflow_datasets as tfds  # here, because it takes a second to import and few runs need it

    try:
        builder = tfds.builder(name, data_dir=directory or None, file_format='array_record')
    except (tfds.core.registered.DatasetNotFoundError, ImportError, ValueError) as error:
        raise FieldError('data.source', f'tfds:{name}',
                         f'{_first_line(error)} The sets are at https://www.tensorflow.org/datasets/catalog') from error
    try:
        _look_up_hosts(builder)
        builder.download_and_prepare(file_format='array_record')
    except Exception as error:  # whatever the set's own script raises: most often no network or no TensorFlow
        raise FieldError(
            'data.source', f'tfds:{name}',
            f'TFDS could not build the set here ({_first_line(error)}); build it where it can be with '
            f"'tfds build {name} --file_format=array_record', copy it here and set config.data.directory, "
            'or write the text to a file and use file:PATH') from error
    features = [key for key, feature in builder.info.features.items() if isinstance(feature, tfds.features.Text)]
    if len(features) != 1:
        raise FieldError('data.source', f'tfds:{name}', f'needs exactly one text feature, and the set has {features}')

    def read(split):
        records = tfds.data_source(name, data_dir=directory or None, split=split, download=False,
                                   builder_kwargs=dict(file_format='array_record'))
        return '\n'.join(record[features[0]].decode('utf-8') for record in records)

    held_out = next((split for split in ('validation', 'test') if split in builder.info.splits), None)
    return Text(read('train'), read(held_out)) if held_out else read('train')


def _look_up_hosts(builder):
    """Fails at once where the set must be downloaded and its hosts cannot be found: TFDS itself tries for minutes."""
    if builder.is_prepared() or urllib.request.getproxies():
        return
    for host in sorted({urllib.parse.urlsplit(url).hostname for url in builder.url_infos or ()}):
        try:
            socket.getaddrinfo(host, 443)
        except socket.gaierror as error:
            raise OSError(f'{host} cannot be found: {error.strerror}') from None


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
