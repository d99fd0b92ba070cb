"""Labelled sequences and images as batches, and what it takes to know the same set again."""

import collections
import dataclasses
import functools
import hashlib

import jax
import numpy as np

from seqjax.data.batches import packing, ragged
from seqjax.data.batches.ragged import length_of
from seqjax.data.batches.stacked import Stacked
from seqjax.data.dataset import Dataset
from seqjax.data.encoded import EncodedRows
from seqjax.data.readers.examples import SPLITS
from seqjax.data.readers.lines import plural
from seqjax.data.readers.splits import drawn, drawn_per_class
from seqjax.data.source import Rows, batch_of_one, hash_of, targets_of
from seqjax.data.statistics import IMAGES, channel_statistics
from seqjax.data.text import labelled_codec
from seqjax.data.text.inheritance import check_inherited
from seqjax.data.text.marking import SHORTEST_ROW, shortened
from seqjax.errors import FieldError
from seqjax.ops import Augmentation
from seqjax.tasks import TASKS


@dataclasses.dataclass(frozen=True)
class Labelled(Dataset):
    """Labelled sequences or images. Interface: `data.Dataset`.

    Args:
        rows: {'train': Rows, 'validation': Rows, 'test': Rows}, each encoded when it is asked for, or `EncodedRows`.
        index: lengths and hash of the rows of sequences; None where all rows have one shape, as images have.
        batching: how lengths become row lengths, 'bucket', 'pad' or 'exact', and `most_shapes` for the first; or 'pack',
            several sequences in a row as long as the longest. Images are stacked.
        report: what was read.
        augment: of training images, by name: see `ops.Augmentation`.
    """

    source: str
    codec: labelled_codec.LabelledCodec
    rows: dict[str, Rows | EncodedRows]
    index: 'Index | None'
    batching: str
    most_shapes: int
    report: str
    augment: str = ''

    @property
    def tokenizer(self):
        return self.codec.tokenizer

    @property
    def of_images(self):
        return self.index is None

    @property
    def steps(self):
        """The mean number of real positions in a training row; of an image 1."""
        if self.index is None:
            return 1.0
        lengths = self.index.lengths['train']
        rows = len(self._packed('train', ('train',), 1).rows) if self.batching == 'pack' else len(lengths)
        return float(lengths.sum() / rows)

    @property
    def shapes(self):
        """How many programs a run compiles for training and for evaluation."""
        return (1, 1) if self.index is None else (len(self._buckets('train')), len(self._buckets('validation', 'test')))

    @property
    def splits(self):
        return tuple(name for name, rows in self.rows.items() if len(rows))

    @property
    def has_gaps(self):
        """Whether some positions have no label."""
        return self.index is not None and self.index.has_gaps

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        return self._batches('train', ('train',), batch_size, lambda made: made.training(seed, process, processes))

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        return self._batches(split, ('validation', 'test'), batch_size,
                             lambda made: made.evaluation(limit, process, processes))

    def sample(self):
        """A batch of one row."""
        row = self.rows['train'][0]
        return batch_of_one(row if self.index is None else {**row, 'lengths': np.int32(length_of(row))})

    def for_task(self):
        return {**self.codec.for_task(), **(dict(augment=self.augment) if self.augment else {})}

    def facts(self):
        """What a run writes down to know the set again; the hash of a source is that of its manifest."""
        sha256 = self.index.sha256 if self.index else hash_of(rows.records for rows in self.rows.values() if len(rows))
        return dict(source=self.source, sha256=sha256, **{name: len(rows) for name, rows in self.rows.items()},
                    classes=list(self.codec.classes), vocabulary=self.tokenizer and self.tokenizer.vocabulary,
                    report=self.report)

    def kept_facts(self):
        """What is known of the set beside its rows and its codec, as JSON."""
        return dict(sha256=self.index.sha256, has_gaps=self.index.has_gaps, report=self.report)

    def __str__(self):
        sizes = ', '.join(f'{len(rows):,} {name}' for name, rows in self.rows.items() if len(rows))
        if self.index is None:
            return f'{sizes} images of {" x ".join(map(str, self.rows["train"][0]["inputs"].shape))}'
        lengths = self.index.lengths['train']
        real = (self._packed('train', ('train',), 1).efficiency() if self.batching == 'pack' else
                ragged.efficiency(lengths, self._buckets('train')))
        return (f'{sizes} sequences of {lengths.min()} to {lengths.max()} steps in {self.shapes[0]} + {self.shapes[1]} '
                f'shapes, {real:.2%} of their positions real')

    def _batches(self, split, like, batch_size, batches):
        """Those of a split, in rows as long as the splits in `like` need them."""
        rows = self.rows[split]
        if self.index is None:
            return batches(Stacked(rows.__getitem__, rows.drawn, len(rows), batch_size))
        if self.batching == 'pack':
            return batches(self._packed(split, like, batch_size)).map(_with_lengths)
        return batches(ragged.Ragged(rows.__getitem__, self.index.lengths[split], self._buckets(*like), batch_size,
                                     drawn=rows.drawn if rows.transforms else None))

    def _packed(self, split, like, batch_size):
        return packing.Packed(self.rows[split].__getitem__, self.index.lengths[split], self._buckets(*like)[-1], batch_size)

    def _buckets(self, *splits):
        mode = 'pad' if self.batching == 'pack' else self.batching
        return ragged.bucket_lengths(mode, np.concatenate([self.index.lengths[split] for split in splits]), self.most_shapes)


@dataclasses.dataclass(frozen=True, eq=False)
class Index:
    """What one pass over all rows finds; the rows themselves are then forgotten.

    lengths: of the rows of every split. sha256: of all numbers. has_gaps: whether some position has no label.
    """

    lengths: dict[str, np.ndarray]
    sha256: str
    has_gaps: bool


def _index(codec, parts, fits, keep):
    """(the `Index` of the records of every split, {split: lengths before anything was cut off}).

    fits: {split: row -> row that is short enough}. keep: see `load_labelled`.
    """
    digest, gaps, lengths, whole = hashlib.sha256(), False, {}, {}
    for split, records in parts.items():
        lengths[split], whole[split] = np.zeros((2, len(records)), np.int32)
        for i, record in enumerate(records):
            row = codec.row(record)
            whole[split][i] = length_of(row)
            row = fits[split](row)
            keep(split, row)
            lengths[split][i] = length_of(row)
            gaps = gaps or np.ndim(row['weights']) > 0 and bool((row['weights'] == 0).any())
            for leaf in jax.tree.leaves(row):
                digest.update(np.asarray(leaf).tobytes())
    return Index(lengths, digest.hexdigest(), gaps), whole


def _with_lengths(batch):
    """A packed batch that says how many steps of each row are filled."""
    return {**batch, 'lengths': (batch['segments'] > 0).sum(axis=1).astype(np.int32)}


def load_labelled(examples, task, options, saved=None, keep=lambda split, row: None):
    """Encodes the examples with the `saved` codec, or with one learned from their training part.

    saved: that of the run itself, or one that is inherited (see `data.inherited`) and learns its answers here.
    keep: is given every row of sequences, in the order of the records.
    """
    if options.special_tokens and options.batching == 'pack':
        raise FieldError('data.batching', 'pack', "puts several sequences in a row, and marks are around one; write 'bucket'")
    if options.train_examples:
        examples = _fewer(examples, task, options)
    if options.examples_per_class:
        examples = _few_per_class(examples, task, options)
    first = examples.train[0].inputs  # which may have to be decoded: once
    if saved is not None:
        check_inherited(saved, options)
    if saved is not None and saved.task:
        how = labelled_codec.with_vectors(saved, options)
    else:
        how = _normalising(labelled_codec.learn(task, examples.train, options) if saved is None else
                           labelled_codec.relearn(saved, task, examples.train, options), first, examples, options)
    _check_labels(how, examples, options)
    if isinstance(first, np.ndarray):
        _check_numbers(how, first, options)
    parts = {split: getattr(examples, split) for split in SPLITS}
    same = dict(source=options.source, batching=options.batching, most_shapes=options.num_buckets,
                augment=options.augment if isinstance(first, np.ndarray) else '')
    if np.ndim(first) == 3:
        return Labelled(codec=how, rows=_rows(how, parts, examples.transforms), index=None, report=examples.report, **same)
    if examples.transforms and options.batching == 'pack':
        raise FieldError('data.batching', 'pack', "needs lengths that stay, and transforms change them; write 'bucket'")
    longest = _longest(how, options)
    fits = dict.fromkeys(SPLITS, lambda row: row)
    if longest:
        fits = (dict.fromkeys(SPLITS, lambda row: shortened(row, longest, how.marks.end)) if how.marked else
                {**fits, 'train': lambda row: first_steps(row, longest)})
    index, whole = _index(how, parts, fits, keep)
    if empty := int(np.count_nonzero(whole['train'] <= (2 if how.marked else 0))):
        raise FieldError('data.source', options.source, f'{plural(empty, "training sequence")} of no steps')
    notes = list(_cut(how, whole, longest))
    if how.marked:
        room = longest or max(SHORTEST_ROW, *(int(np.max(lengths, initial=0)) for lengths in index.lengths.values()))
        how = dataclasses.replace(how, longest=how.longest or room)
    return Labelled(codec=how, rows=_rows(how, parts, examples.transforms, fits), index=index,
                    report='; '.join([examples.report, *notes]), **same)


def open_labelled(rows, codec, options, facts):
    """The set of encoded rows. rows: of a split; facts: those that `Labelled.kept_facts` had of it."""
    rows = {split: rows(split) for split in SPLITS}
    index = Index({split: part.lengths('inputs') for split, part in rows.items()}, facts['sha256'], facts['has_gaps'])
    return Labelled(options.source, codec, rows, index, options.batching, options.num_buckets, facts['report'],
                    options.augment)


def _rows(codec, parts, transforms, fits=None):
    """{split: Rows}; those of training with transforms."""
    make = lambda fit: lambda record: fit(codec.row(record))
    return {split: Rows(records, make(fits[split]) if fits else codec.row, transforms if split == 'train' else ())
            for split, records in parts.items()}


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


def _few_per_class(examples, task, options):
    """The examples, with only so many of every class for training."""
    refuse = functools.partial(FieldError, 'data.examples_per_class', options.examples_per_class)
    if TASKS[task].target != 'class':
        raise refuse(f'the answers of {task} are no classes; set config.data.train_examples instead')
    if options.train_examples:
        raise refuse(f'and config.data.train_examples={options.train_examples}: set one of them to 0')
    label, fewest = min(collections.Counter(targets_of(examples.train)).items(), key=lambda item: item[1])
    if fewest < options.examples_per_class:
        raise refuse(f'the class {str(label)!r} has {plural(fewest, "training example")}; set it to that '
                     'or less, or to 0 for all')
    few = drawn_per_class(examples.train, options.examples_per_class, seed=options.split_seed)
    report = f'{examples.report}; {len(few):,} of {len(examples.train):,} training examples'
    return dataclasses.replace(examples, train=few, report=report)


def _labels(task, examples):
    """Those that examples have, of classes or of steps."""
    targets = targets_of(examples)
    return ({label for row in targets for label in row} if TASKS[task].per_step else set(targets)) - {None}


def _longest(how, options):
    """Positions that no row has more of; 0: as many as the longest one has. Where rows are not marked, of training rows."""
    if how.marked and 0 < options.max_length < SHORTEST_ROW:
        raise FieldError('data.max_length', options.max_length, f'rows with marks need {SHORTEST_ROW} steps; set it higher')
    if how.marked and how.longest and options.max_length > how.longest:
        raise FieldError('data.max_length', options.max_length, 'the model that this run starts from reads rows of up to '
                         f'{how.longest} steps; set it to that or less, or to 0')
    return options.max_length or (how.longest if how.marked else 0)


def _cut(how, whole, longest):
    """Sentences about what was cut off, a split each. whole: lengths before."""
    for split in (SPLITS if how.marked else SPLITS[:1]) if longest else ():
        count = int(np.count_nonzero(whole[split] > longest))
        noun = f'{split} sequence' if how.marked else 'training sequence'
        if count or not how.marked:
            yield f'{plural(count, noun)} cut to {longest} steps'


def _normalising(how, inputs, examples, options):
    """The codec with what it must know of numbers: their shape, and where they are normalised the
    statistics of the training part, or those that are inherited. inputs: the first ones.
    """
    if not isinstance(inputs, np.ndarray):
        return how
    if inputs.ndim == 2:
        how = dataclasses.replace(how, features=inputs.shape[1])
    if inputs.ndim == 3:
        how = dataclasses.replace(how, shape=inputs.shape, image_size=options.image_size, images_as=options.images_as,
                                  pixel_seed=options.split_seed if options.images_as else 0)
    mean, deviation = how.mean, how.deviation
    if not mean:
        if not (options.normalise if inputs.ndim > 2 else examples.normalise):
            return how
        mean, deviation = channel_statistics(examples.train, IMAGES if inputs.ndim > 2 else 0)
    channels = inputs.shape[-1]
    numbers = inputs.shape[1] * channels if how.images_as == 'rows' else channels
    if len(mean) == channels < numbers:
        mean, deviation = (tuple(np.tile(x, numbers // channels).tolist()) for x in (mean, deviation))
    if len(mean) != numbers:
        raise FieldError('data.source', options.source, f'has inputs of {plural(numbers, "channel")}, and what '
                         f'this run starts from normalises {len(mean)}')
    return dataclasses.replace(how, mean=mean, deviation=deviation)


def _check_numbers(how, inputs, options):
    """Images have one shape, and nothing of them is cut off or packed; what is for images is not for frames."""
    refuse = lambda field, reason: FieldError(f'data.{field}', getattr(options, field), reason)
    if inputs.ndim == 3:
        for field, off in (('max_length', 0), ('batching', 'bucket')):
            if getattr(options, field) != off:
                raise refuse(field, f'is for sequences, and the set has images; leave it at {off!r}')
    for field, least in (('images_as', 3), ('augment', 3), ('normalise', 3)):
        if inputs.ndim < least and getattr(options, field):
            raise refuse(field, 'is for images, and the set has none; leave it out')
    if options.augment:
        if options.images_as:
            raise refuse('augment', "is for images, and config.data.images_as makes sequences of them; set one of both to ''")
        if not hasattr(TASKS[how.task], 'augment'):
            raise refuse('augment', f"is for tasks that read images, and {how.task} is none; set it to ''")
        if Augmentation.parse(options.augment).mixes and TASKS[how.task].target != 'class':
            raise refuse('augment', 'mixes classes, and the set has none; leave mixup and cutmix out')


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
