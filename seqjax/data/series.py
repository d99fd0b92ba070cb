"""Series of numbers as windows, to forecast their next values."""

from collections.abc import Sequence
import dataclasses
import hashlib
from typing import Any, Self

import numpy as np

from seqjax.data.batches.stacked import Stacked
from seqjax.data.dataset import Dataset
from seqjax.data.readers.examples import SPLITS, Example
from seqjax.data.readers.lines import plural
from seqjax.data.source import batch_of_one
from seqjax.data.statistics import channel_statistics
from seqjax.data.text.codec import Codec
from seqjax.errors import FieldError

STRIDE = 4  # training windows begin so many times in the length of one


@dataclasses.dataclass(frozen=True)
class SeriesCodec(Codec):
    """mean, deviation: of every feature over the training part, by which values are normalised. length: time steps of a row."""

    kind = 'series'
    tokenizer = None
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    length: int

    def inputs(self, sequence: np.ndarray) -> np.ndarray:
        """Values [T, D] normalised."""
        return (np.asarray(sequence, np.float32) - np.float32(self.mean)) / np.float32(self.deviation)

    def row(self, window: np.ndarray) -> dict[str, np.ndarray]:
        """dict(inputs [length, D], targets [length, D], weights [length]) of a window of up to length + 1 steps."""
        values, T = self.inputs(window), len(window) - 1
        empty = lambda *shape: np.zeros((self.length, *shape), np.float32)
        row = dict(inputs=empty(values.shape[1]), targets=empty(values.shape[1]), weights=empty())
        row['inputs'][:T], row['targets'][:T], row['weights'][:T] = values[:-1], values[1:], 1
        return row

    def for_model(self) -> dict[str, Any]:
        return dict(vocabulary=None, outputs=len(self.mean), per_step=True, context_length=self.length)

    def for_task(self) -> dict[str, Any]:
        return dict(deviation=self.deviation)

    def as_options(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(tuple(state['mean']), tuple(state['deviation']), state['length'])


@dataclasses.dataclass(frozen=True)
class Series(Dataset):
    """Windows of series. Interface: `data.Dataset`.

    A batch has inputs [B, T, D], targets [B, T, D] and weights [B, T]. Training windows overlap, those of held-out parts
    share one step, so that every value but the first is predicted once.

    series: {split: [[T, D], ...]}. windows: {split: [(number of the series, first step), ...]}. report: what was read.
    """

    source: str
    codec: SeriesCodec
    series: dict[str, Sequence[np.ndarray]]
    windows: dict[str, list[tuple[int, int]]]
    report: str

    tokenizer = None

    @property
    def steps(self):
        """Time steps of a row."""
        return float(self.codec.length)

    @property
    def splits(self):
        return tuple(name for name, windows in self.windows.items() if windows)

    def row(self, split, i):
        number, begin = self.windows[split][i]
        return self.codec.row(self.series[split][number][begin:begin + self.codec.length + 1])

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        return self._stacked('train', batch_size).training(seed, process, processes)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        return self._stacked(split, batch_size).evaluation(limit, process, processes)

    def sample(self):
        """A batch of one row."""
        return batch_of_one(self.row('train', 0))

    def facts(self):
        """What a run writes down to know the set again."""
        digest = hashlib.sha256()
        for split, series in self.series.items():
            for values in series:
                digest.update(f'{split} {values.shape}'.encode() + np.ascontiguousarray(values).tobytes())
        return dict(source=self.source, sha256=digest.hexdigest(), **{name: len(windows) for name, windows in self.windows.items()},
                    features=len(self.codec.mean), report=self.report)

    def __str__(self):
        sizes = ', '.join(f'{len(windows):,} {name}' for name, windows in self.windows.items() if windows)
        return f'{sizes} windows of {self.codec.length} steps with {plural(len(self.codec.mean), "feature")}'

    def _stacked(self, split, batch_size):
        row = lambda i: self.row(split, i)
        return Stacked(row, lambda i, rng: row(i), len(self.windows[split]), batch_size)


def load_series(examples, options, saved=None):
    """Windows of examples whose inputs are series [T, D]; where there is one alone, its end is held out.

    options: `config.data`; a window predicts `sequence_length` values.
    """
    parts = {split: [example.inputs for example in getattr(examples, split)] for split in SPLITS}
    if not all(isinstance(values, np.ndarray) and values.ndim == 2 for series in parts.values() for values in series):
        raise FieldError('data.source', options.source, 'has other inputs than series of numbers [T, D]')
    report = examples.report
    if not parts['validation']:
        parts['validation'], report = _held_out(parts['train'], options, report)
    mean, deviation = channel_statistics([Example(values, 0.0) for values in parts['train']])
    codec = saved or SeriesCodec(mean, deviation, options.sequence_length)
    windows = {split: _windows(series, codec.length, split == 'train') for split, series in parts.items()}
    for split in SPLITS[:2]:
        if not windows[split]:
            raise FieldError('data.source', options.source, f'has no {split} series of two steps or more')
    return Series(options.source, codec, parts, windows, report)


def _held_out(series, options, report):
    """(the validation part, what was read); takes it from the training part: the last steps of one series, or the last of several."""
    if len(series) == 1:
        cut = round(len(series[0]) * (1 - options.held_out))
        validation, series[0] = [series[0][max(0, cut - 1):]], series[0][:cut]  # its first step is known, and not predicted
        return validation, f'{report}; the last {len(validation[0]) - 1:,} steps held out'
    count = max(1, round(len(series) * options.held_out))
    validation = series[-count:]
    del series[-count:]
    return validation, f'{report}; the last {count:,} series held out'


def _windows(series, length, overlapping):
    """(number of the series, first step) of windows that predict up to `length` steps."""
    found = []
    for number, values in enumerate(series):
        steps = len(values) - 1  # that can be predicted
        if overlapping and steps > 0:
            begins = {*range(0, max(1, steps - length + 1), max(1, length // STRIDE)), max(0, steps - length)}
        else:
            begins = range(0, steps, length)
        found += [(number, begin) for begin in sorted(begins)]
    return found
