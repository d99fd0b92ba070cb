"""`config.data`: the set, and how it becomes batches. What a run has of it depends on its kind of data and on its source."""

import dataclasses
from typing import Any, ClassVar

from seqjax.fields import FRACTION, at_least, field, one_of

TEXT, MASKED, SPANS, LABELLED, PAIRS = 'text', 'masked', 'spans', 'labelled', 'pairs'  # see `Task.data`
FILES = ('files', 'tfds')  # files of examples, and sets of TFDS
OF_TEXT = (TEXT, MASKED, SPANS)
OF_EXAMPLES = (LABELLED, PAIRS)
OF_TOKENS = (*OF_TEXT, *OF_EXAMPLES)


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Kinds: those above, 'file' (of text or of examples), and the fields that a set by name reads (see `data.SOURCES`)."""

    MEANING: ClassVar[dict[str, str]] = {
        TEXT: 'language models', MASKED: 'masked language models', SPANS: 'span corruption', LABELLED: 'labelled sequences',
        PAIRS: 'translations', 'file': 'files', 'files': 'files of examples', 'tfds': 'sets of TFDS', 'held_out_rows': 'generated sets',
        'sequence_length': 'sets with rows of any length', 'held_out': 'sets without parts of their own', 'split_seed': 'sets split by it', 'image_size': 'sets of images'}

    source: str = field('python', "An embedded set, 'file:PATH', 'file:DIR/{train,dev,test}.tsv', for translation also "
                        "'file:DIR/{train,dev,test}.{de,en}', or 'tfds:NAME': docs/data_files.md.")
    batch_size: int = field(32, 'Batch size: rows of a step, over all devices.', at_least(1))
    split: str = field('validation', "Split that --mode=eval measures: 'validation' or 'test'.", one_of('validation', 'test'))
    sequence_length: int = field(64, "Sequence length: tokens of a row of text; T of 'adding' and 'copy'; the longest string of "
                                 "'reverse'.", at_least(2), of=(*OF_TEXT, 'sequence_length'))
    directory: str = field('', "Directory of TFDS's sets; '': its own default.", of=('tfds',))
    held_out: float = field(0.1, 'Held-out part, where the source has no validation split; the last part of a text.', FRACTION,
                            of=('file', 'tfds', 'held_out'))
    held_out_rows: int = field(1000, "Held-out rows of 'adding' and 'copy', which are generated without end.", at_least(1),
                               of=('held_out_rows',))
    encoding: str = field('utf-8', "Character encoding of files: also 'latin-1', 'cp1252', ...", of=('file',))
    tokenizer: str = field('char', "Tokenizer: 'char', 'byte', 'bpe', 'unigram' or 'word'; 'pretrained': that of init_from, from "
                           'Hugging Face.', of=OF_TOKENS)
    vocabulary: int = field(1024, "Vocabulary size of 'bpe', 'unigram' and 'word'.", at_least(1), of=OF_TOKENS)
    shared: bool = field(False, 'Shared vocabulary of both languages of a translation.', of=(PAIRS, SPANS))
    lowercase: bool = field(False, 'Lowercase words and characters of labelled and masked text, and pairs and corrupted spans.',
                            of=(MASKED, SPANS, LABELLED, PAIRS))
    batch_tokens: int = field(0, 'Tokens of a batch, source and target, about; its rows are then a multiple of batch_size, more of '
                              'short pairs than of long ones; 0: batch_size rows.', at_least(0), of=(PAIRS,))
    carry: bool = field(False, 'Truncated backpropagation through time (stateful): rows go on where those of the batch before '
                        'ended.', of=(TEXT,))
    documents: str = field('', "Packed documents, kept apart in attention and state: 'line', 'paragraph' or what ends one; '': "
                           'one document.', of=OF_TEXT)
    masked: float = field(0.15, 'Masked share of the tokens.', FRACTION, of=(MASKED, SPANS))
    span_length: float = field(3.0, 'Mean length of corrupted spans.', at_least(1), of=(SPANS,))
    next_sentence: bool = field(False, 'Next-sentence prediction: two texts a row.', of=(MASKED,))
    batching: str = field('bucket', "Batching of ragged rows: 'bucket': length buckets; 'pad': one length; 'exact': each its own; "
                          "'pack', for tagging: several sequences a row.", one_of('bucket', 'pad', 'exact', 'pack'), of=OF_EXAMPLES)
    shapes: int = field(4, "Row lengths that 'bucket' may use; each is compiled once.", at_least(1), of=OF_EXAMPLES)
    max_length: int = field(0, 'Maximum length: longer training sequences are cut, longer pairs are left out; 0: none; rows with '
                            'special tokens are all cut, and 0 is as many as the longest one has.', at_least(0), of=OF_EXAMPLES)
    marked: bool = field(False, 'Special tokens: rows are [CLS] text [SEP] or [CLS] text [SEP] text [SEP], as BERT reads them.',
                         of=(LABELLED, MASKED))
    train_examples: int = field(0, 'Number of training examples, drawn by split_seed; 0: all.', at_least(0), of=(LABELLED,))
    spelling: int = field(0, 'Characters of every word that the model reads beside the word; 0: none.', at_least(0),
                          of=(LABELLED,))
    vectors: str = field('', "Pretrained word vectors, a text file; '': none.", of=(LABELLED,))
    format: str = field('', "File format: 'tsv', 'csv', 'jsonl', 'conll', 'conllu', 'fasta', 'folder', 'images', 'parallel'; '': by "
                        'its name.', of=('files',))
    image_size: int = field(0, 'Image size: height and width that images are resized to; 0: all have one as they are.',
                            at_least(0), of=('files', 'image_size'), but=(PAIRS,))
    input_column: str = field('', "Input column, name or number; for a TFDS set of translations a language; 'a,b': two texts a "
                              "row, which need special tokens; '': see docs/data_files.md.", of=FILES)
    target_column: str = field('', 'Target column.', of=FILES, but=OF_TEXT)
    split_column: str = field('', 'Split column.', of=('files',))
    label_file: str = field('', 'Label file beside a FASTA file: a label for every residue.', of=('files',))
    mask_file: str = field('', 'Mask file beside it: 1 where the label counts.', of=('files',))
    split_seed: int = field(0, 'Seed of the held-out split, where the file does not say.', at_least(0), of=(LABELLED, *FILES, 'split_seed'), but=OF_TEXT)
    on_error: str = field('stop', "At a malformed line: 'stop', or 'skip' and count it.", one_of('stop', 'skip'), of=('files',))


def kinds(kind: str, source: str, made: Any = None) -> set[str]:
    """The kinds of `DataOptions` that a run has. kind: of its task's data; made: the set of `data.SOURCES`, if it is one."""
    if made:
        return {*made.reads, *([] if made.endless else [kind])}
    place = source.partition(':')[0]
    return {kind, place, *(['files'] if place == 'file' and kind in OF_EXAMPLES else [])}
