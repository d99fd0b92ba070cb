"""Texts and their translations as batches: ragged pairs in few shapes, and what it takes to know the same set again."""

import dataclasses
import functools
import hashlib

import numpy as np

from seqjax.data.batches import ragged
from seqjax.data.dataset import Dataset
from seqjax.data.encoded import EncodedPairs, EncodedRows
from seqjax.data.readers.examples import SPLITS
from seqjax.data.readers.lines import plural
from seqjax.data.source import Rows, batch_of_one
from seqjax.data.text.inheritance import check_inherited
from seqjax.data.text.pair_codec import PairCodec, learn_pairs
from seqjax.errors import FieldError, UserError

TEXTS = '{}_texts'  # of a split, as rows


@dataclasses.dataclass(frozen=True)
class Pairs(Dataset):
    """Pairs of texts. Interface: `data.Dataset`.

    A batch has inputs [B, S] and their lengths [B], targets [B, T] and their weights [B, T]. A pair goes to a bucket by its
    longer side; there, sources are filled up to the longest of them, and targets to the longest of theirs.

    rows: {'train': Rows, 'validation': Rows, 'test': Rows} of two texts each, encoded when they are asked for, or
    `EncodedRows` with their texts; sizes: source and target tokens of every pair [N, 2]; sha256: of all tokens and texts.
    batching, most_shapes: as for `Labelled`. batch_tokens: source and target positions that a batch has about; its rows are
    then a multiple of `batch_size`, more of short pairs than of long ones. 0: `batch_size` rows. report: what was read.
    """

    source: str
    codec: PairCodec
    rows: dict[str, Rows | EncodedRows]
    sizes: dict[str, np.ndarray]
    sha256: str
    batching: str
    most_shapes: int
    batch_tokens: int
    report: str

    tokenizer = None  # there are two: see `codec`

    @property
    def steps(self):
        """The mean number of source and target tokens in a training pair."""
        return float(self.sizes['train'].sum(axis=1).mean())

    @property
    def shapes(self):
        """How many programs a run compiles for training and for evaluation."""
        return len(self._buckets('train')[0]), len(self._buckets('validation', 'test')[0])

    @property
    def splits(self):
        return tuple(name for name, rows in self.rows.items() if len(rows))

    def texts(self, split):
        """(sources, references) of a split, in the order of `rows`; in small letters where the codec says so."""
        clean, pairs = self.codec.clean, self.rows[split].records
        return [clean(pair.inputs) for pair in pairs], [clean(pair.target) for pair in pairs]

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        return self._ragged('train', ('train',), batch_size).training(seed, process, processes)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        return self._ragged(split, ('validation', 'test'), batch_size).evaluation(limit, process, processes)

    def rows_of_a_step(self, batch_size):
        """The mean number of pairs in a training batch: more than batch_size where batches are made by tokens."""
        made = self._ragged('train', ('train',), batch_size)
        pairs = np.bincount(np.searchsorted(made.buckets, made.lengths), minlength=len(made.buckets))
        return float(pairs.sum() / (pairs / made.batch_size).sum())

    def sample(self):
        """A batch of one pair."""
        row = self.rows['train'][0]
        return batch_of_one({**row, 'lengths': np.int32(len(row['inputs']))})

    def facts(self):
        """What a run writes down to know the set again."""
        vocabularies = self.for_model()
        return dict(source=self.source, sha256=self.sha256, **{name: len(rows) for name, rows in self.rows.items()},
                    vocabulary=vocabularies['vocabulary'], target_vocabulary=vocabularies['target_vocabulary'],
                    tags=list(self.codec.source_side.tags), report=self.report)

    def kept_facts(self):
        """What is known of the set beside its rows and its codec, as JSON."""
        return dict(sha256=self.sha256, report=self.report)

    def efficiency(self):
        """Real positions over computed ones, in training."""
        buckets, filled = self._buckets('train')
        rows = np.bincount(np.searchsorted(buckets, self.sizes['train'].max(axis=1)))
        computed = sum(count * (shape['inputs'] + shape['targets']) for count, shape in zip(rows, filled))
        return float(self.sizes['train'].sum() / computed)

    def __str__(self):
        sizes = ', '.join(f'{len(rows):,} {name}' for name, rows in self.rows.items() if len(rows))
        low, high = self.sizes['train'].min(axis=0), self.sizes['train'].max(axis=0)
        return (f'{sizes} pairs of {low[0]} to {high[0]} source and {low[1]} to {high[1]} target tokens in {self.shapes[0]} '
                f'+ {self.shapes[1]} shapes, {self.efficiency():.2%} of their positions real')

    def _buckets(self, *splits):
        """(the longest pair of every bucket, what it is filled up to)."""
        sizes = np.concatenate([self.sizes[split] for split in splits])
        buckets = ragged.bucket_lengths(self.batching, sizes.max(axis=1), self.most_shapes)
        bucket = np.searchsorted(buckets, sizes.max(axis=1))
        longest = [sizes[bucket == k].max(axis=0).tolist() for k in range(len(buckets))]
        return buckets, tuple(dict(inputs=S, targets=T, weights=T) for S, T in longest)

    def _ragged(self, split, like, batch_size):
        """The pairs of a split, in the shapes that the splits in `like` need."""
        buckets, filled = self._buckets(*like)
        rows = tuple(batch_size * max(1, self.batch_tokens // ((shape['inputs'] + shape['targets']) * batch_size))
                     for shape in filled)
        return ragged.Ragged(self.rows[split].__getitem__, self.sizes[split].max(axis=1), buckets, rows, filled)


def load_pairs(examples, options, saved=None, keep=lambda split, row: None):
    """Encodes the pairs with the `saved` codec, of the run or inherited, or with one learned from their training part.

    Training pairs with a side of more than `options.max_length` tokens, its end not counted, are left out.
    keep: is given every row, in the order of the pairs, and as rows of `TEXTS.format(split)` their two texts.
    """
    if options.batching == 'pack':
        raise FieldError('data.batching', 'pack', "puts several sequences in a row, and pairs have rows of their own; "
                         "write 'bucket'")
    if saved:
        check_inherited(saved, options)
    codec, report = saved or learn_pairs(examples.train, options), examples.report
    if examples.transforms:
        raise FieldError('data.source', options.source, 'has transforms, which are for labelled sequences and images')
    rows, sizes, digest = {}, {}, hashlib.sha256()
    for split in SPLITS:
        rows[split] = Rows(getattr(examples, split), codec.row)
        try:
            longest = options.max_length if split == 'train' else 0
            kept, sizes[split] = _index(codec, rows[split], longest, digest, functools.partial(_keep, keep, split))
        except UserError as error:
            raise FieldError('data.source', options.source, f'in the {split} part {error}') from None
        if split == 'train' and options.max_length:
            report += (f'; {plural(len(rows[split]) - len(kept), "training pair")} of more than {options.max_length} tokens '
                       'left out')
            if not kept:
                raise FieldError('data.max_length', options.max_length, 'no training pair is that short; set it higher, or to 0')
            rows[split] = rows[split].picked(kept)
    return Pairs(options.source, codec, rows, sizes, digest.hexdigest(), options.batching, options.num_buckets, options.batch_tokens,
                 report)


def open_pairs(rows, codec, options, facts):
    """The set of encoded rows. rows: of a name that `load_pairs` kept; facts: those that `Pairs.kept_facts` had of it."""
    rows = {split: dataclasses.replace(rows(split), records=EncodedPairs(rows(TEXTS.format(split)))) for split in SPLITS}
    sizes = {split: np.stack([part.lengths('inputs'), part.lengths('targets')], axis=1) for split, part in rows.items()}
    return Pairs(options.source, codec, rows, sizes, facts['sha256'], options.batching, options.num_buckets,
                 options.batch_tokens, facts['report'])


def _keep(keep, split, row, pair):
    keep(split, row)
    keep(TEXTS.format(split), EncodedPairs.row(pair))


def _index(codec, rows, longest, digest, keep):
    """(the numbers of the pairs that are short enough, their source and target tokens [N, 2]) in one pass, which also
    updates the digest. longest: 0 keeps all. keep: is given those rows and pairs."""
    kept, sizes = [], []
    for i, (pair, row) in enumerate(zip(rows.records, rows)):
        size = len(row['inputs']), len(row['targets'])
        if longest and max(size) - 1 > longest:
            continue
        kept.append(i)
        sizes.append(size)
        keep(row, pair)
        texts = codec.clean(pair.inputs), codec.clean(pair.target)
        for part in (row['inputs'].tobytes(), row['targets'].tobytes(), *(text.encode('utf-8') for text in texts)):
            digest.update(part)
    return kept, np.array(sizes, np.int32).reshape(-1, 2)
