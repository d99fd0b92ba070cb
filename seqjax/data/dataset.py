"""What the rest of the house asks of a set of data, whatever it is made of."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import grain

from seqjax.data.text.codec import FILE, Codec


@runtime_checkable
class Dataset(Protocol):
    """A set as batches: a source, transforms, batching and a codec. Sets inherit the members that have a body here.

    A batch is a dict of numpy arrays [B, ...] with 'inputs', 'targets' and 'weights'; 'lengths' [B] where rows are ragged,
    'segments' [B, T] where they are packed, 'starts' [B] where they go on from those of the batch before. Weight 0 is for
    what is not counted: rows that fill up a batch of the evaluation, and positions without a target.
    """

    codec: Codec | None
    """How records become numbers and back; None where they are numbers without names."""

    splits: tuple[str, ...]
    """'train', 'validation' and, where there is one, 'test'."""

    report: str = ''
    """What was read and what was left out, for a reader."""

    has_gaps: bool = False
    """Whether positions that should have a label have none."""

    @property
    def steps(self) -> float:
        """Positions of a training row, their mean where rows are ragged."""
        ...

    @property
    def shapes(self) -> tuple[int, int]:
        """How many shapes batches have in training and in evaluation: so many programs are compiled."""
        return 1, 1

    def training_batches(self, *, batch_size: int, seed: int, process: int = 0, processes: int = 1) -> grain.MapDataset:
        """An endless dataset: element `step` is this process's rows of the global batch of that step.

        The global batch is a function of (seed, step), transforms included, and does not depend on `processes`.
        """
        ...

    def evaluation_batches(self, *, batch_size: int, split: str = 'validation', limit: int = 0, process: int = 0,
                           processes: int = 1) -> grain.MapDataset:
        """Every row of a split once, without transforms. limit: so many batches at most; 0: all."""
        ...

    def sample(self) -> dict[str, Any]:
        """A batch of one row, to make parameters from."""
        ...

    def rows_of_a_step(self, batch_size: int) -> float:
        """The mean number of rows in a training batch."""
        return batch_size

    def for_model(self) -> Mapping[str, Any]:
        """Fields of a model that the data decides, as the size of the vocabulary."""
        return self.codec.for_model() if self.codec else {}

    def for_task(self) -> Mapping[str, Any]:
        """Fields of a task that the data decides, as the names of classes."""
        return self.codec.for_task() if self.codec else {}

    def files(self) -> Mapping[str, str]:
        """{name: text} of what a run must keep, to read and answer new records."""
        return {FILE: self.codec.dumps()} if self.codec else {}

    def facts(self) -> Mapping[str, Any]:
        """What a run writes down to know the set again, as JSON: 'source', 'sha256', sizes. Cheap to ask for."""
        ...
