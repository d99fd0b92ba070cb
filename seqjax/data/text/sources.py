"""Where plain text comes from: the embedded default, files, or a TFDS set. It is read in chunks, and never held as a whole.

    python                        the standard library's own source, about 4 MB on any machine that runs Python
    file:PATH                     a text file, also .gz
    file:DIR/{train,valid}.txt    two files, or three with a test part
    tfds:NAME                     a set of TensorFlow Datasets with one text feature, read without TensorFlow
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
import dataclasses
import functools
import gzip
import hashlib
import itertools
import os
import pathlib
from typing import Any
import zlib

from seqjax.data.cache import manifest, remembered
from seqjax.data.readers.examples import SPLITS, Text
from seqjax.data.readers.files import expand
from seqjax.data.readers.lines import check_encoding
from seqjax.data.readers.tfds import tfds_texts
from seqjax.data.sources import OF_TEXT, SOURCES, names_of
from seqjax.errors import FieldError

CHUNK = 1 << 20  # bytes that are read at once


@dataclasses.dataclass(frozen=True)
class TextSource:
    """A text in parts.

    name: `config.data.source`. streams: {split: a function that reads its chunks}, or {'': ...} of a text of which the last
    `held_out` is the validation part. manifest: what tells without reading that the content is still the same, or None.
    """

    name: str
    streams: dict[str, Callable[[], Iterable[str]]]
    manifest: Any
    held_out: float

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.streams) if '' not in self.streams else SPLITS[:2]

    @property
    def sha256(self) -> str:
        """Of the number of characters of all parts but the last, and of all characters."""
        return self._facts['sha256']

    def chunks(self, *splits: str) -> Iterator[str]:
        """The text of the splits, chunk by chunk."""
        for split in splits:
            if '' in self.streams:
                cut = self._facts['cut']
                begin, end = (0, cut) if split == 'train' else (cut, None)
                yield from _between(self.streams[''](), begin, end)
            else:
                yield from self.streams[split]()

    @functools.cached_property
    def _facts(self):
        """dict(sha256=..., cut=the first character of the validation part)."""
        if self.manifest is None:
            return self._read()
        return remembered('text', [self.manifest, self.held_out], lambda folder: self._read())[0]

    def _read(self):
        lengths = [sum(map(len, read())) for read in self.streams.values()]
        if not lengths[0]:
            raise FieldError('data.source', self.name, 'the file is empty')
        cut = round(lengths[0] * (1 - self.held_out))
        digest = hashlib.sha256(''.join(f'{n} ' for n in (lengths[:-1] or [cut])).encode())
        for chunk in itertools.chain.from_iterable(read() for read in self.streams.values()):
            digest.update(chunk.encode())
        return dict(sha256=digest.hexdigest(), cut=cut)


def open_text(source: str, *, held_out: float = 0.1, directory: str = '', column: str = '',
              encoding: str = 'utf-8') -> TextSource:
    """The text that `source` names. directory: where TFDS keeps its sets. column: the text feature of a set that has several.

    encoding: of the characters of files.
    """
    kind, _, name = source.partition(':')
    if source in SOURCES:
        made = SOURCES[source]('', dict(held_out=held_out))
        if isinstance(made, TextSource):
            return made
        whole = dataclasses.asdict(made) if isinstance(made, Text) else {'': made}
        streams, known = {split: functools.partial(_chunks, text) for split, text in whole.items()}, None
    elif kind == 'file' and name:
        check_encoding(encoding)
        paths = [pathlib.Path(path).expanduser() for path in expand(name)]
        read = [functools.partial(_file_text, source, path, encoding) for path in paths]
        streams = dict(zip(SPLITS, read)) if len(read) > 1 else {'': read[0]}
        files = manifest(paths)
        known = files and [encoding, *files]
    elif kind == 'tfds' and name:
        streams, paths = tfds_texts(name, directory, column)
        files = manifest(paths)
        known = files and [name, column, *files]
    else:
        raise FieldError('data.source', source, "write 'python', 'file:PATH' or 'tfds:NAME', or name an embedded set: "
                         f'{names_of(*OF_TEXT)}')
    return TextSource(source, streams, known, held_out)


def load_text(source: str, **options: Any) -> Text:
    """The training and the validation part of a text as two strings. options: see `open_text`."""
    text = open_text(source, **options)
    return Text(*(''.join(text.chunks(split)) for split in SPLITS[:2]))


def _between(chunks, begin, end):
    """Characters `begin` to `end` of a text, chunk by chunk."""
    place = 0
    for chunk in chunks:
        part = chunk[max(0, begin - place):None if end is None else max(0, end - place)]
        place += len(chunk)
        if part:
            yield part
        if end is not None and place >= end:
            break


def _chunks(text):
    return (text[start:start + CHUNK] for start in range(0, len(text), CHUNK))


def _file_text(source, path, encoding):
    """The characters of a file, line ends as they are."""
    refuse = functools.partial(FieldError, 'data.source', source)
    decoder, begin, lines = codecs.getincrementaldecoder(encoding)(), 0, 0  # begin: bytes before what is decoded next
    try:
        with (gzip.open if path.suffix == '.gz' else open)(path, 'rb') as file:
            for block in itertools.chain(iter(lambda: file.read(CHUNK), b''), [b'']):
                pending = len(decoder.getstate()[0])
                if chunk := decoder.decode(block, final=not block):
                    yield chunk
                begin += len(block)
                lines += block.count(b'\n')
    except FileNotFoundError:
        raise refuse(f'no such file (looked in {os.getcwd()})') from None
    except UnicodeDecodeError as error:
        line = lines + error.object.count(b'\n', pending, error.start) + 1
        name = 'UTF-8' if encoding == 'utf-8' else encoding
        raise refuse(f'line {line}: byte {begin - pending + error.start} of the file is not {name}; convert it first, or name its '
                     "encoding, as in config.data.encoding='latin-1'") from None
    except (EOFError, zlib.error) as error:  # from a damaged .gz
        raise refuse(f'line {_whole_lines(path) + 1}: the compressed data ends here or is damaged ({error}); copy the file '
                     'again') from None
    except OSError as error:
        raise refuse(f'cannot be read: {error}') from None


def _whole_lines(path):
    """How many lines of a damaged .gz can be read."""
    lines = 0
    try:
        with gzip.open(path, 'rb') as file:
            while line := file.readline(CHUNK):
                lines += line.endswith(b'\n')
    except (EOFError, zlib.error):
        pass
    return lines
