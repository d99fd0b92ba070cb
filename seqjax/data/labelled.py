"""Labelled sequences as batches: ragged rows in few shapes, and what it takes to know the same set again."""

import dataclasses
import hashlib

import jax
import numpy as np

from seqjax.data.batches import packing, ragged
from seqjax.data.batches.ragged import length_of
from seqjax.data.readers.examples import SPLITS
from seqjax.data.readers.lines import plural
from seqjax.data.readers.splits import drawn
from seqjax.data.text import labelled_codec
from seqjax.data.text.codecs import FILE
from seqjax.data.text.inheritance import check_inherited
from seqjax.data.text.marking import SHORTEST_ROW, shortened
from seqjax.errors import FieldError
from seqjax.tasks import TASKS


@dataclasses.dataclass(frozen=True)
class Labelled:
    """Examples that are numbers by now. Interface: see `data.load`.

    rows: {'train': [...], 'validation': [...], 'test': [...]} of what `LabelledCodec.row` returns. batching: how lengths become
    row lengths, 'bucket', 'pad' or 'exact', and `most_shapes` for the first; or 'pack', several sequences in a row as long
    as the longest. report: what was read.
    """

    source: str
    codec: labelled_codec.LabelledCodec
    rows: dict
    batching: str
    most_shapes: int
    report: str

    @property
    def tokenizer(self):
        return self.codec.tokenizer

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
        return TASKS[self.codec.task].per_step and any((row['weights'] == 0).any() for row in rows)

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        return self._batches('train', ('train',), batch_size, lambda made: made.training(seed, process, processes))

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        return self._batches(split, ('validation', 'test'), batch_size,
                             lambda made: made.evaluation(limit, process, processes))

    def for_model(self):
        return self.codec.for_model()

    def for_task(self):
        return self.codec.for_task()

    def files(self):
        """What a run keeps to label new sequences: {name: text}."""
        return {FILE: self.codec.dumps()}

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
                    classes=list(self.codec.classes), vocabulary=self.tokenizer and self.tokenizer.vocabulary,
                    report=self.report)

    def __str__(self):
        lengths = self._lengths('train')
        real = (self._packed('train', ('train',), 1).efficiency() if self.batching == 'pack' else
                ragged.efficiency(lengths, self._buckets('train')))
        sizes = ', '.join(f'{len(rows):,} {name}' for name, rows in self.rows.items() if rows)
        return (f'{sizes} sequences of {lengths.min()} to {lengths.max()} steps in {self.shapes[0]} + {self.shapes[1]} '
                f'shapes, {real:.2%} of their positions real')

    def _lengths(self, split):
        return np.array([length_of(row) for row in self.rows[split]], np.int32)

    def _batches(self, split, like, batch_size, batches):
        """Those of a split, in rows as long as the splits in `like` need them."""
        if self.batching == 'pack':
            return batches(self._packed(split, like, batch_size)).map(_with_lengths)
        return batches(ragged.Ragged(self.rows[split].__getitem__, self._lengths(split), self._buckets(*like), batch_size))

    def _packed(self, split, like, batch_size):
        return packing.Packed(self.rows[split].__getitem__, self._lengths(split), self._buckets(*like)[-1], batch_size)

    def _buckets(self, *splits):
        mode = 'pad' if self.batching == 'pack' else self.batching
        return ragged.bucket_lengths(mode, np.concatenate([self._lengths(split) for split in splits]),
                                       self.most_shapes)


def _with_lengths(batch):
    """A packed batch that says how many steps of each row are filled."""
    return {**batch, 'lengths': (batch['segments'] > 0).sum(axis=1).astype(np.int32)}


def load_labelled(examples, task, options, saved=None):
    """Encodes the examples with the `saved` codec, or with one learned from their training part.

    saved: that of the run itself, or one that is inherited (see `data.inherited`) and learns its answers here.
    """
    if options.marked and options.batching == 'pack':
        raise FieldError('data.batching', 'pack', "puts several sequences in a row, and marks are around one; write 'bucket'")
    if options.train_examples:
        examples = _fewer(examples, task, options)
    if saved is None:
        how = labelled_codec.learn(task, examples.train, options)
    else:
        check_inherited(saved, options)
        how = (labelled_codec.with_vectors(saved, options) if saved.task else
               labelled_codec.relearn(saved, task, examples.train, options))
    _check_labels(how, examples, options)
    report, rows = examples.report, {}
    for split in SPLITS:
        rows[split] = [how.row(example) for example in getattr(examples, split)]
    if empty := sum(length_of(row) <= (2 if how.marked else 0) for row in rows['train']):
        raise FieldError('data.source', options.source, f'{plural(empty, "training sequence")} of no steps')
    how, rows, notes = _fitted(how, rows, options) if how.marked else (how, *_cut(rows, options.max_length))
    return Labelled(options.source, how, rows, options.batching, options.shapes, '; '.join([report, *notes]))


def _fewer(examples, task, options):
    """The examples, with only so many for training; of these no label may be missing that is asked for."""
    count, known = options.train_examples, len(examples.train)
    if count > known:
        raise FieldError('data.train_examples', count, f'there are {known:,}; set it to that or less, or to 0 for all')
    few = drawn(examples.train, count, seed=options.split_seed)
    if TASKS[task].target != 'number':
        every, kept = _labels(task, examples.train), _labels(task, few)
        asked = every if len(kept) < 2 else _labels(task, examples.validation) | _labels(task, examples.test)
        if lost := sorted(every & asked - kept):
            raise FieldError('data.train_examples', count, f'none of those that are drawn has the label {lost[0]!r}; set it '
                             'higher, or config.data.split_seed to draw others')
    return dataclasses.replace(examples, train=few, report=f'{examples.report}; {count:,} of {known:,} training sequences')


def _labels(task, examples):
    """Those that examples have, of classes or of steps."""
    targets = [example.target for example in examples]
    return ({label for row in targets for label in row} if TASKS[task].per_step else set(targets)) - {None}


def _cut(rows, longest):
    """(rows, what is to be said of it): training sequences lose what comes after their first `longest` steps; 0: nothing."""
    if not longest:
        return rows, []
    cut = sum(length_of(row) > longest for row in rows['train'])
    return ({**rows, 'train': [first_steps(row, longest) for row in rows['train']]},
            [f'{plural(cut, "training sequence")} cut to {longest} steps'])


def _fitted(how, rows, options):
    """(codec, rows, what is to be said of it), where rows are marked: none is longer than a model has places for.

    As many as `options.max_length` or, where that is 0, as the inherited codec says or the longest row of any part has.
    """
    if 0 < options.max_length < SHORTEST_ROW:
        raise FieldError('data.max_length', options.max_length, f'rows with marks need {SHORTEST_ROW} steps; set it higher')
    if how.longest and options.max_length > how.longest:
        raise FieldError('data.max_length', options.max_length, 'the model that this run starts from reads rows of up to '
                         f'{how.longest} steps; set it to that or less, or to 0')
    every = [row for split in SPLITS for row in rows[split]]
    longest = options.max_length or how.longest or max(SHORTEST_ROW, *map(length_of, every))
    cut = {split: sum(length_of(row) > longest for row in rows[split]) for split in SPLITS}
    rows = {split: [shortened(row, longest, how.marks.end) for row in rows[split]] for split in SPLITS}
    notes = [f'{plural(count, f"{split} sequence")} cut to {longest} steps' for split, count in cut.items() if count]
    return dataclasses.replace(how, longest=how.longest or longest), rows, notes


def _check_labels(how, examples, options):
    """Refuses labels that the codec does not know: it was learned from other examples, or from training ones alone."""
    if TASKS[how.task].target == 'number':
        return
    found = set().union(*(_labels(how.task, getattr(examples, split)) for split in SPLITS))
    if unknown := sorted(found - {*how.classes}):
        raise FieldError('data.source', options.source, f'has the label {unknown[0]!r}, which was not learned; there are: '
                         f'{", ".join(how.classes)}')


def first_steps(row, steps):
    """The row without what comes after its first steps."""
    return jax.tree.map(lambda x: x[:steps] if np.ndim(x) else x, row)
