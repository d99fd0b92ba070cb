"""Images with captions as batches: what captioning and contrastive learning of images and texts read."""

import dataclasses

import numpy as np

from seqjax.data.batches.stacked import Stacked
from seqjax.data.dataset import Dataset
from seqjax.data.readers.examples import SPLITS, Example
from seqjax.data.readers.lines import plural
from seqjax.data.source import Rows, Source, batch_of_one, hash_of, targets_of
from seqjax.data.statistics import IMAGES, channel_statistics
from seqjax.data.text.caption_codec import CaptionCodec, learn_captions
from seqjax.data.text.inheritance import check_inherited
from seqjax.errors import FieldError
from seqjax.ops import Augmentation


@dataclasses.dataclass(frozen=True)
class Captions(Dataset):
    """Images and their captions. Interface: `data.Dataset`.

    A batch has inputs [B, H, W, C], targets [B, T] and their weights [B, T]: a caption, its end, and padding. All batches
    have one shape. In training an image comes once with each of its captions; in evaluation once, with the first of them.

    rows: {'train': Rows, 'validation': Rows, 'test': Rows}, encoded when they are asked for. captions: {split: of every row
    all captions that its image has}. augment: see `ops.Augmentation`. tokens: the mean length of a training caption. report:
    what was read.
    """

    source: str
    codec: CaptionCodec
    rows: dict[str, Rows]
    captions: dict[str, list[tuple[str, ...]]]
    augment: str
    tokens: float
    report: str

    tokenizer = None  # see `codec`

    @property
    def steps(self):
        """The mean number of tokens in a training caption, its end included."""
        return self.tokens

    @property
    def splits(self):
        return tuple(name for name, rows in self.rows.items() if len(rows))

    def texts(self, split):
        """(images, references) of a split, in the order of `rows`: all captions of every image, as the codec cleans them."""
        records, clean = self.rows[split].records, self.codec.clean
        return _Inputs(records), [tuple(map(clean, captions)) for captions in self.captions[split]]

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        rows = self.rows['train']
        return Stacked(rows.__getitem__, rows.drawn, len(rows), batch_size).training(seed, process, processes)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        rows = self.rows[split]
        return Stacked(rows.__getitem__, rows.drawn, len(rows), batch_size).evaluation(limit, process, processes)

    def sample(self):
        """A batch of one row."""
        return batch_of_one(self.rows['train'][0])

    def for_task(self):
        return {**self.codec.for_task(), **(dict(augment=self.augment) if self.augment else {})}

    def facts(self):
        """What a run writes down to know the set again; the hash of a source is that of its manifest."""
        sha256 = hash_of(rows.records for rows in self.rows.values() if len(rows))
        return dict(source=self.source, sha256=sha256, **{name: len(rows) for name, rows in self.rows.items()},
                    vocabulary=self.codec.target_side.size, report=self.report)

    def __str__(self):
        sizes = ', '.join(f'{len(rows):,} {name}' for name, rows in self.rows.items() if len(rows))
        shape = ' x '.join(map(str, self.rows['train'][0]['inputs'].shape))
        return f'{sizes} images of {shape} with captions of up to {self.codec.length - 1} tokens'


class EachCaption(Source):
    """Every image once with each of its captions, which are the targets of a source.

    Args:
        source: examples whose targets are captions, one or several.
        chosen: (number of the image, number of its caption) of every record; None: all.
    """

    def __init__(self, source, chosen=None):
        self.source, self.captions = source, [captions_of(target) for target in targets_of(source)]
        self.chosen = chosen or [(i, j) for i, captions in enumerate(self.captions) for j in range(len(captions))]

    def __len__(self):
        return len(self.chosen)

    def __getitem__(self, k):
        i, j = self.chosen[k]
        return dataclasses.replace(self.source[i], target=self.captions[i][j])

    @property
    def targets(self):
        return [self.captions[i][j] for i, j in self.chosen]

    def manifest(self):
        return dict(images=hash_of([self.source]), captions=[list(pair) for pair in self.chosen])


def captions_of(target: str | tuple[str, ...]) -> tuple[str, ...]:
    """The captions of an image, which may have one."""
    return (target,) if isinstance(target, str) else tuple(target)


def load_captions(examples, options, saved=None):
    """Encodes images and captions with the `saved` codec, or with one learned from their training part.

    Training captions of more than `options.max_length` tokens, their end not counted, are left out; others are cut.
    """
    if saved:
        check_inherited(saved, options)
    parts = {split: getattr(examples, split) for split in SPLITS}
    first = examples.train[0].inputs
    if np.ndim(first) != 3:
        raise FieldError('data.source', options.source, f'captions are of images [H, W, C], and the inputs have {np.ndim(first)} axes')
    if options.augment and Augmentation.parse(options.augment).mixes:
        raise FieldError('data.augment', options.augment, 'mixes classes, and the set has captions; leave mixup and cutmix out')
    train, report, longest = EachCaption(parts['train']), examples.report, options.max_length
    codec = saved or learn_captions(train.targets, options)
    lengths = np.array([len(codec.target(text)) for text in train.targets])
    if longest:
        kept = np.flatnonzero(lengths <= longest + 1)
        report += f'; {plural(len(lengths) - len(kept), "training caption")} of more than {longest} tokens left out'
        if not len(kept):
            raise FieldError('data.max_length', longest, 'no training caption is that short; set it higher, or to 0')
        train, lengths = EachCaption(parts['train'], [train.chosen[k] for k in kept]), lengths[kept]
    held_out = {split: EachCaption(parts[split], [(i, 0) for i in range(len(parts[split]))]) if len(parts[split]) else []
                for split in SPLITS[1:]}
    texts = [text for part in (train, *held_out.values()) for text in targets_of(part)]
    length = longest + 1 if longest else max(len(codec.target(text)) for text in texts)
    if not codec.length:
        codec = dataclasses.replace(codec, length=int(length))
    if not saved:
        codec = dataclasses.replace(codec, shape=np.shape(first), image_size=options.image_size)
    if options.normalise and not saved:
        mean, deviation = channel_statistics(parts['train'], IMAGES)
        codec = dataclasses.replace(codec, mean=mean, deviation=deviation)
    records = {'train': train, **held_out}
    rows = {split: Rows(part, codec.row, examples.transforms if split == 'train' else ()) for split, part in records.items()}
    captions = {split: [part.captions[i] for i, _ in part.chosen] if len(part) else [] for split, part in records.items()}
    return Captions(options.source, codec, rows, captions, options.augment, float(lengths.mean()), report)


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """The inputs of records, made when they are asked for."""

    records: Source

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: int) -> np.ndarray:
        example: Example = self.records[i]
        return example.inputs
