"""Rows of files that are encoded once: kept in memory-mapped arrays, which later runs read in the place of the files.

    train.inputs.npy          what the rows have below a name, one after another in time [sum of T, ...]
    train.inputs.ends.npy     where each of them ends [N]
    train.targets.npy         a number a row [N]; nothing says where it ends
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import functools
import importlib.metadata
import pathlib
from typing import Any

import numpy as np

from seqjax.data.cache import found, remembered
from seqjax.data.mapped import Mapped, Writer
from seqjax.data.readers.examples import Example
from seqjax.data.text.codec import Codec
from seqjax.data.text.codecs import load_codec

LATER = ('batch_size', 'split', 'num_buckets', 'batch_tokens')  # fields of `config.data` that matter once rows are encoded
VECTORS = 'vectors.npy'  # pretrained ones, which a codec has in memory and does not save


# ------------------------------------------------------------------------------------------------ rows on disk

class RowWriter:
    """Writes rows one by one: dicts of arrays with time as their first axis, of numbers, and of such dicts."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path, self._values, self._ends, self._count = path, {}, {}, 0

    def add(self, row: Mapping[str, Any]) -> None:
        for name, value in _leaves(row):
            value = np.asarray(value)
            if not self._count:
                self._values[name] = Writer(_file(self._path, name), value.dtype, value.shape[1:])
                if value.ndim:
                    self._ends[name] = Writer(_file(self._path, name, 'ends'), np.int64)
            self._values[name].add(value if value.ndim else value[None])
            if value.ndim:
                self._ends[name].add([self._values[name].length])
        self._count += 1

    def close(self) -> dict[str, Any]:
        """What `EncodedRows` must be told, as JSON."""
        for file in (*self._values.values(), *self._ends.values()):
            file.close()
        return dict(length=self._count, ragged={name: name in self._ends for name in self._values})


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedRows(Sequence):
    """What a `RowWriter` wrote: row i is read from disk whenever it is asked for.

    Args:
        path: a directory and the name of the rows.
        length, ragged: what `RowWriter.close` returned.
        records: what the rows were made of, where that is asked for.
    """

    path: pathlib.Path
    length: int
    ragged: Mapping[str, bool]
    records: Sequence[Example] = ()

    transforms = ()  # they are for records

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self.length))]
        i, row = range(self.length)[i], {}
        for name, (values, ends) in self._arrays.items():
            *within, last = name.split('.')
            place = functools.reduce(lambda node, key: node.setdefault(key, {}), within, row)
            if ends is None:
                place[last] = values[i]
            else:
                begin, end = (0, ends[0]) if i == 0 else ends[i - 1:i + 1]
                place[last] = values[begin:end]
        return row

    def lengths(self, name: str) -> np.ndarray:
        """Steps of what the rows have below a name [N]."""
        ends = [ends for leaf, (_, ends) in self._arrays.items() if leaf.split('.')[0] == name]
        return np.diff(ends[0][:], prepend=0).astype(np.int32) if ends else np.zeros(0, np.int32)

    @functools.cached_property
    def _arrays(self):
        """{name: (values, ends or None)}."""
        return {name: (Mapped(_file(self.path, name)), Mapped(_file(self.path, name, 'ends')) if ragged else None)
                for name, ragged in self.ragged.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedPairs(Sequence):
    """Pairs of texts, kept as rows of their bytes: see `row`."""

    rows: EncodedRows

    @staticmethod
    def row(pair: Example) -> dict[str, np.ndarray]:
        return {name: np.frombuffer(text.encode('utf-8'), np.uint8) for name, text in
                (('source', pair.inputs), ('target', pair.target))}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        row = self.rows[i]
        return Example(*(row[name].tobytes().decode('utf-8') for name in ('source', 'target')))


# ------------------------------------------------------------------------------------------------ once

def encoded_once(files: list, options: Any, task: list, saved: Codec | None, load: Callable[..., Any],
                 reopen: Callable[..., Any]) -> Any:
    """A set of data whose rows are in the cache: those of an earlier run, or else what `load` makes of the files.

    Args:
        files: the manifest of all that is read (see `cache.manifest`).
        options: `config.data`. task: what of the task decides about rows, as JSON.
        saved: a codec of the run, or one that is inherited, or None.
        load: (a codec or None, keep) -> a set with `codec` and `kept_facts`; gives keep(name, row) all rows.
        reopen: (name -> EncodedRows, codec, options, facts) -> the same set.
    """
    wanted = {name: value for name, value in options.items() if name not in LATER}
    key = [files, wanted, task, importlib.metadata.version('tokenizers')]

    def write(folder, codec):
        writers = {}

        def keep(name, row):
            if name not in writers:
                writers[name] = RowWriter(folder / name)
            writers[name].add(row)

        made = load(codec, keep)
        if (vectors := getattr(made.codec, 'table', None)) is not None:
            np.save(folder / VECTORS, vectors)
        rows = {name: writer.close() for name, writer in writers.items()}
        return dict(codec=made.codec.dumps(), rows=rows, **made.kept_facts())

    def learn(folder):
        """Rows show how long they are, which is part of the codec, so that both are made together."""
        facts = write(folder, saved)
        remembered('rows', [key, facts['codec']], lambda other: _moved(folder, other, facts))
        for file in folder.iterdir():
            file.unlink()
        return dict(codec=facts['codec'])

    of = lambda codec: [key, codec]
    entry = saved and found('rows', of(saved.dumps()))
    if not entry:
        codec = remembered('codec', of(saved and saved.dumps()), learn)[0]['codec']
        entry = remembered('rows', of(codec), lambda folder: write(folder, load_codec(codec)))
    facts, folder = entry
    codec = load_codec(facts['codec'])
    if (folder / VECTORS).exists():
        codec = dataclasses.replace(codec, table=np.load(folder / VECTORS, allow_pickle=False))
    none = dict(length=0, ragged={})
    return reopen(lambda name: EncodedRows(folder / name, **facts['rows'].get(name, none)), codec, options, facts)


def _moved(folder, other, facts):
    for file in folder.iterdir():
        file.rename(other / file.name)
    return facts


def _leaves(row: Mapping[str, Any], above: str = '') -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f'{above}{name}.')
        else:
            yield f'{above}{name}', value


def _file(path: pathlib.Path, *names: str) -> pathlib.Path:
    return path.with_name('.'.join((path.name, *names, 'npy')))
