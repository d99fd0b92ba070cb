"""Sources: records by number, made when they are asked for; and rows, which are records that are numbers by now."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import functools
import hashlib
import json
from typing import Any

import jax
import numpy as np

from seqjax.data.readers.examples import Example

Transform = Callable[[Example, np.random.Generator], Example]


class Source(Sequence):
    """Records that are made when they are asked for, in any order and from several threads.

    Subclasses define `__len__`, `__getitem__(i) -> Example` for i from 0 on, and `manifest`; `targets`, where they can be
    known without the inputs.
    """

    def manifest(self) -> Mapping[str, Any]:
        """A description that changes where the records do, as JSON; cheap to make."""
        raise NotImplementedError

    @property
    def targets(self) -> Sequence[Any]:
        """The target of every record."""
        return [record.target for record in self]

    def __iter__(self) -> Iterator[Example]:
        return (self[i] for i in range(len(self)))


@dataclasses.dataclass(frozen=True, eq=False)
class Subset(Source):
    """Some records of a source, by their numbers."""

    source: Source
    chosen: Sequence[int]

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, i: int) -> Example:
        return self.source[self.chosen[i]]

    def manifest(self) -> Mapping[str, Any]:
        return dict(of=self.source.manifest(), chosen=[int(i) for i in self.chosen])

    @functools.cached_property
    def targets(self) -> Sequence[Any]:
        every = self.source.targets
        return [every[i] for i in self.chosen]


def targets_of(records: Sequence[Example]) -> Sequence[Any]:
    """The target of every record, without the inputs of a source that knows them."""
    return records.targets if isinstance(records, Source) else [record.target for record in records]


def picked(records: Sequence[Example], chosen: Sequence[int]) -> Sequence[Example]:
    """The records with these numbers."""
    return Subset(records, chosen) if isinstance(records, Source) else [records[i] for i in chosen]


def hash_of(parts: Iterable[Sequence[Example]]) -> str:
    """sha256 of the manifests of sources, and of what is in lists."""
    digest = hashlib.sha256()
    for records in parts:
        if isinstance(records, Source):
            digest.update(json.dumps(records.manifest(), sort_keys=True).encode())
        else:
            for record in records:
                digest.update(np.asarray(record.inputs).tobytes() + repr(record.target).encode())
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True, eq=False)
class Rows(Sequence):
    """Row i is `make(records[i])`, made whenever it is asked for.

    Args:
        make: record -> {'inputs': ..., 'targets': ..., 'weights': ...}.
        transforms: of training records, one after the other, before they become rows: `transform(record, rng) -> record`
            is a pure function of the two.
    """

    records: Sequence[Example]
    make: Callable[[Example], dict]
    transforms: tuple[Transform, ...] = ()

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self.make(self.records[k]) for k in range(*i.indices(len(self)))]
        return self.make(self.records[i])

    def __iter__(self) -> Iterator[dict]:
        return map(self.make, self.records)

    def drawn(self, i: int, rng: np.random.Generator) -> dict:
        """Row i with its transforms."""
        record = self.records[i]
        for transform in self.transforms:
            record = transform(record, rng)
        return self.make(record)

    def picked(self, chosen: Sequence[int]) -> 'Rows':
        return dataclasses.replace(self, records=picked(self.records, chosen))


def batch_of_one(row: Mapping[str, Any]) -> dict:
    """A batch of one row, to make parameters from."""
    return jax.tree.map(lambda x: np.asarray(x)[None], dict(row))
