"""Labelled sequences as batches: ragged rows in few shapes, and what it takes to know the same set again."""

import dataclasses
import hashlib

import jax
import numpy as np

from seqjax.data import batching, encoding, packing
from seqjax.data.batching import length_of
from seqjax.data.lines import plural
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Examples that are numbers by now. Interface: see `data.load`.

    rows: {'train': [...], 'validation': [...], 'test': [...]} of what `Encoding.row` returns. batching: how lengths become
    row lengths, 'bucket', 'pad' or 'exact', and `most_shapes` for the first; or 'pack', several sequences in a row as long
    as the longest. report: what was read.
    """

    source: str
    encoding: encoding.Encoding
    rows: dict
    batching: str
    most_shapes: int
    report: str

    @property
    def tokenizer(self):
        return self.encoding.tokenizer

    @property
    def steps(self):
        """The mean number of real steps in a training row."""
        lengths = self._lengths('train')
        rows = len(self._packed('train', ('train',), 1).rows) if self.batching == 'pack' else len(lengths)
        return float(lengths.sum() / rows)

    @property
    def shapes(self):
        """How many programs a run compiles for training and for evaluation."""
        return len(self._buckets('train')), len(self._buckets('validation', 'test'))

    @property
    def splits(self):
        return tuple(name for name, rows in self.rows.items() if rows)

    @property
    def has_gaps(self):
        """Whether some steps have no label."""
        rows = [row for split in self.rows.values() for row in split]
        return self.encoding.task == 'tagging' and any((row['weights'] == 0).any() for row in rows)

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        return self._batches('train', ('train',), batch_size, lambda made: made.training(seed, process, processes))

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        return self._batches(split, ('validation', 'test'), batch_size,
                             lambda made: made.evaluation(limit, process, processes))

    def for_model(self):
        return self.encoding.for_model()

    def for_task(self):
        return self.encoding.for_task()

    def files(self):
        """What a run keeps to label new sequences: {name: text}."""
        return {'encoding.json': self.encoding.dumps()}

    def sample(self):
        """A batch of one row."""
        row = self.rows['train'][0]
        return jax.tree.map(lambda x: np.asarray(x)[None], {**row, 'lengths': np.int32(length_of(row))})

    def facts(self):
        """What a run writes down to know the set again."""
        digest = hashlib.sha256()
        for split in self.rows.values():
            for row in split:
                for leaf in jax.tree.leaves(row):
                    digest.update(np.asarray(leaf).tobytes())
        return dict(source=self.source, sha256=digest.hexdigest(), **{name: len(rows) for name, rows in self.rows.items()},
                    classes=list(self.encoding.classes), vocabulary=self.tokenizer and self.tokenizer.vocabulary,
                    report=self.report)

    def __str__(self):
        lengths = self._lengths('train')
        real = (self._packed('train', ('train',), 1).efficiency() if self.batching == 'pack' else
                batching.efficiency(lengths, self._buckets('train')))
        sizes = ', '.join(f'{len(rows):,} {name}' for name, rows in self.rows.items() if rows)
        return (f'{sizes} sequences of {lengths.min()} to {lengths.max()} steps in {self.shapes[0]} + {self.shapes[1]} '
                f'shapes, {real:.2%} of their positions real')

    def _lengths(self, split):
        return np.array([length_of(row) for row in self.rows[split]], np.int32)

    def _batches(self, split, like, batch_size, batches):
        """Those of a split, in rows as long as the splits in `like` need them."""
        if self.batching == 'pack':
            return batches(self._packed(split, like, batch_size)).map(_with_lengths)
        return batches(batching.Ragged(self.rows[split].__getitem__, self._lengths(split), self._buckets(*like), batch_size))

    def _packed(self, split, like, batch_size):
        return packing.Packed(self.rows[split].__getitem__, self._lengths(split), self._buckets(*like)[-1], batch_size)

    def _buckets(self, *splits):
        mode = 'pad' if self.batching == 'pack' else self.batching
        return batching.bucket_lengths(mode, np.concatenate([self._lengths(split) for split in splits]),
                                       self.most_shapes)


def _with_lengths(batch):
    """A packed batch that says how many steps of each row are filled."""
    return {**batch, 'lengths': (batch['segments'] > 0).sum(axis=1).astype(np.int32)}


def load_labelled(examples, task, options, saved=None):
    """Encodes the examples with the `saved` encoding, or with one learned from their training part."""
    how = encoding.with_vectors(saved, options) if saved else encoding.learn(task, examples.train, options)
    _check_labels(how, examples, options)
    report, rows = examples.report, {}
    for split in ('train', 'validation', 'test'):
        rows[split] = [how.row(example) for example in getattr(examples, split)]
    if options.max_length:
        cut = sum(length_of(row) > options.max_length for row in rows['train'])
        rows['train'] = [first_steps(row, options.max_length) for row in rows['train']]
        report += f'; {plural(cut, "training sequence")} cut to {options.max_length} steps'
    if empty := sum(length_of(row) == 0 for row in rows['train']):
        raise FieldError('data.source', options.source, f'{plural(empty, "training sequence")} of no steps')
    return Labelled(options.source, how, rows, options.batching, options.shapes, report)


def _check_labels(how, examples, options):
    """Refuses labels that the encoding does not know: it was learned from other examples, or from training ones alone."""
    if how.task == 'regression':
        return
    every = [example.target for example in (*examples.train, *examples.validation, *examples.test)]
    found = {label for row in every for label in row} if how.task == 'tagging' else set(every)
    if unknown := sorted(found - {None, *how.classes}):
        raise FieldError('data.source', options.source, f'has the label {unknown[0]!r}, which was not learned; there are: '
                         f'{", ".join(how.classes)}')


def first_steps(row, steps):
    """The row without what comes after its first steps."""
    return jax.tree.map(lambda x: x[:steps] if np.ndim(x) else x, row)
