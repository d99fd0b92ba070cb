"""`config.data`: the set, and how it becomes batches. What a run has of it depends on its kind of data and on its source."""

import dataclasses
from typing import Any, ClassVar

from seqjax.fields import FRACTION, at_least, field, one_of, that
from seqjax.ops.augmentation.pipeline import problem_of

TEXT, MASKED, SPANS, LABELLED, PAIRS, CAPTIONS, SERIES = 'text', 'masked', 'spans', 'labelled', 'pairs', 'captions', 'series'  # see `Task.data`
FILES = ('files', 'tfds')  # files of examples, and sets of TFDS
OF_TEXT = (TEXT, MASKED, SPANS)
OF_EXAMPLES = (LABELLED, PAIRS)
OF_IMAGES = (*FILES, 'images')  # sources that may have images
OF_TOKENS = (*OF_TEXT, *OF_EXAMPLES, CAPTIONS)


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Kinds: those above, 'file' (of text or of examples), and the fields that a set by name reads (see `data.SOURCES`)."""

    MEANING: ClassVar[dict[str, str]] = {
        TEXT: 'language models', MASKED: 'masked language models', SPANS: 'span corruption', LABELLED: 'labelled sequences',
        PAIRS: 'translations', CAPTIONS: 'images with captions', SERIES: 'series to be forecast',
        'file': 'files', 'files': 'files of examples', 'tfds': 'sets of TFDS', 'held_out_rows': 'generated sets',
        'sequence_length': 'sets with rows of any length', 'held_out': 'sets without parts of their own', 'split_seed': 'sets split by it', 'image_size': 'sets of images',
        'images': 'sets of images'}

    source: str = field('python', "An embedded set, 'file:PATH', 'file:DIR/{train,dev,test}.tsv', for translation also "
                        "'file:DIR/{train,dev,test}.{de,en}', or 'tfds:NAME': docs/data_files.md.")
    batch_size: int = field(32, 'Batch size: rows of a step, over all devices.', at_least(1))
    split: str = field('validation', "Split that --mode=eval measures: 'validation' or 'test'.", one_of('validation', 'test'))
    sequence_length: int = field(64, "Sequence length: tokens of a row of text; T of 'adding' and 'copy'; the longest string of "
                                 "'reverse'; time steps that a row of a series predicts.", at_least(2), of=(*OF_TEXT, SERIES, 'sequence_length'))
    directory: str = field('', "Directory of TFDS's sets; '': its own default.", of=('tfds',))
    held_out: float = field(0.1, 'Held-out part, where the source has no validation split; the last part of a text.', FRACTION,
                            of=('file', 'tfds', 'held_out'))
    held_out_rows: int = field(1000, "Held-out rows of 'adding' and 'copy', which are generated without end.", at_least(1),
                               of=('held_out_rows',))
    encoding: str = field('utf-8', "Character encoding of files: also 'latin-1', 'cp1252', ...", of=('file',))
    tokenizer: str = field('char', "Tokenizer: 'char', 'byte', 'bpe', 'unigram' or 'word'; 'pretrained': that of init_from, from "
                           'Hugging Face.', of=OF_TOKENS)
    vocabulary: int = field(1024, "Vocabulary size of 'bpe', 'unigram' and 'word'.", at_least(1), of=OF_TOKENS)
    shared_vocabulary: bool = field(False, 'Shared vocabulary of both languages of a translation.', of=(PAIRS, SPANS))
    lowercase: bool = field(False, 'Lowercase words and characters of labelled and masked text, and pairs and corrupted spans.',
                            of=(MASKED, SPANS, LABELLED, PAIRS, CAPTIONS))
    batch_tokens: int = field(0, 'Tokens of a batch, source and target, about; its rows are then a multiple of batch_size, more of '
                              'short pairs than of long ones; 0: batch_size rows.', at_least(0), of=(PAIRS,))
    stateful: bool = field(False, 'Truncated backpropagation through time (stateful): rows go on where those of the batch before '
                        'ended.', of=(TEXT,))
    documents: str = field('', "Packed documents, kept apart in attention and state: 'line', 'paragraph' or what ends one; '': "
                           'one document.', of=OF_TEXT)
    mask_probability: float = field(0.15, 'Masked share of the tokens.', FRACTION, of=(MASKED, SPANS))
    span_length: float = field(3.0, 'Mean length of corrupted spans.', at_least(1), of=(SPANS,))
    next_sentence: bool = field(False, 'Next-sentence prediction: two texts a row.', of=(MASKED,))
    batching: str = field('bucket', "Batching of ragged rows: 'bucket': length buckets; 'pad': one length; 'exact': each its own; "
                          "'pack', for tagging: several sequences a row.", one_of('bucket', 'pad', 'exact', 'pack'), of=OF_EXAMPLES)
    num_buckets: int = field(4, "Row lengths that 'bucket' may use; each is compiled once.", at_least(1), of=OF_EXAMPLES)
    max_length: int = field(0, 'Maximum length: longer training sequences are cut, longer pairs and captions are left out; 0: none; rows with '
                            'special tokens are all cut, and 0 is as many as the longest one has.', at_least(0), of=(*OF_EXAMPLES, CAPTIONS))
    special_tokens: bool = field(False, 'Special tokens: rows are [CLS] text [SEP] or [CLS] text [SEP] text [SEP], as BERT reads them.',
                         of=(LABELLED, MASKED))
    train_examples: int = field(0, 'Number of training examples, drawn by split_seed; 0: all.', at_least(0), of=(LABELLED,))
    examples_per_class: int = field(0, 'Number of training examples of every class, drawn by split_seed; 0: all.',
                                    at_least(0), of=(LABELLED,))
    characters_per_word: int = field(0, 'Characters of every word that the model reads beside the word; 0: none.', at_least(0),
                          of=(LABELLED,))
    word_vectors: str = field('', "Pretrained word vectors, a text file; '': none.", of=(LABELLED,))
    format: str = field('', "File format: 'tsv', 'csv', 'jsonl', 'conll', 'conllu', 'fasta', 'folder', 'images', 'idx', 'npz', 'listed', 'tar', "
                        "'steps', 'series', 'parallel'; '': by its name.", of=('files',))
    image_size: int = field(0, 'Image size: height and width that images are resized to; 0: all have one as they are.',
                            at_least(0), of=('files', 'tfds', 'image_size'), but=(PAIRS, *OF_TEXT))
    cache_images: bool = field(False, 'Image cache: all image files are decoded at the start, once, into a memory-mapped array in the cache.', of=('files',),
                               but=(PAIRS,))
    images_as: str = field('', "Images as sequences: 'rows' of pixels, 'pixels' one by one, or 'permuted': pixels in an order that split_seed draws; "
                           "'': as they are.", one_of('', 'rows', 'pixels', 'permuted'), of=OF_IMAGES, but=(PAIRS, CAPTIONS, *OF_TEXT))
    augment: str = field('', "Augmentation of training images, by name, as 'crop(padding=4), flip': docs/images.md; '': none.",
                         that(lambda text: not problem_of(text), problem_of), of=OF_IMAGES, but=(PAIRS, *OF_TEXT))
    normalise: bool = field(False, 'Normalise pixels by mean and standard deviation of every channel of the training part; numeric '
                            'sequences always are.', of=OF_IMAGES, but=(PAIRS, *OF_TEXT))
    input_column: str = field('', "Input column, name or number; for a TFDS set of translations a language; 'a,b': two texts a "
                              "row, which need special tokens; '': see docs/data_files.md.", of=FILES)
    target_column: str = field('', 'Target column.', of=FILES, but=OF_TEXT)
    split_column: str = field('', 'Split column.', of=('files',))
    sequence_column: str = field('', "Column that says which sequence a row of the format 'steps' is of.", of=('files',))
    label_file: str = field('', 'Label file beside a FASTA file: a label for every residue; beside an .npz of images: a label or caption for every '
                            'image, in target_column.', of=('files',))
    mask_file: str = field('', 'Mask file beside it: 1 where the label counts.', of=('files',))
    split_seed: int = field(0, 'Seed of the held-out split, where the file does not say.', at_least(0), of=(LABELLED, *FILES, 'split_seed'), but=OF_TEXT)
    on_error: str = field('stop', "At a malformed line: 'stop', or 'skip' and count it.", one_of('stop', 'skip'), of=('files',))


def kinds(kind: str, source: str, made: Any = None) -> set[str]:
    """The kinds of `DataOptions` that a run has. kind: of its task's data; made: the set of `data.SOURCES`, if it is one."""
    if made:
        return {*made.reads, *([] if made.endless else [kind]), *(['images'] if made.of_images else [])}
    place = source.partition(':')[0]
    return {kind, place, *(['files'] if place == 'file' and kind in (*OF_EXAMPLES, CAPTIONS, SERIES) else [])}
