"""Sources, tokenizers and batches. Nothing else in seqjax imports grain or tfds."""

from seqjax.data.batches.packing import Documents, Packed, pack
from seqjax.data.batches.ragged import Ragged, bucket_lengths, efficiency, plan_buckets
from seqjax.data.batches.streams import evaluation_streams, training_streams
from seqjax.data.batches.windows import Windows, evaluation_batches, prefetched, training_batches
from seqjax.data.corpus import Corpus, load_corpus
from seqjax.data.dataset import Dataset
from seqjax.data.embedded.synthetic import Synthetic
from seqjax.data.images.arrays import ImageArray
from seqjax.data.images.class_folders import ClassFolders
from seqjax.data.images.decoding import decoded
from seqjax.data.images.idx import read_idx
from seqjax.data.images.lazy import LazyImages
from seqjax.data.labelled import Labelled, load_labelled
from seqjax.data.loading import check_task, default_task, load, load_examples
from seqjax.data.pairs import Pairs, load_pairs
from seqjax.data.pretraining import Pretraining, load_pretraining
from seqjax.data.readers.examples import Example, Examples, Text, TextPair
from seqjax.data.readers.files import read_examples
from seqjax.data.source import Source, Transform
from seqjax.data.sources import SOURCES, Made, is_endless, made_for
from seqjax.data.text.codec import Codec, TextCodec
from seqjax.data.text.codecs import CODECS, load_codec, saved_codec
from seqjax.data.text.inheritance import inherited
from seqjax.data.text.labelled_codec import LabelledCodec
from seqjax.data.text.pair_codec import PairCodec
from seqjax.data.text.pretrained_tokenizer import PretrainedTokenizer
from seqjax.data.text.sources import TextSource, load_text, open_text
from seqjax.data.text.tokenizers import BPETokenizer, ByteTokenizer, CharTokenizer, SymbolTokenizer, UnigramTokenizer

__all__ = ['BPETokenizer', 'ByteTokenizer', 'CODECS', 'CharTokenizer', 'ClassFolders', 'Codec', 'Corpus',
           'Dataset', 'Documents', 'Example', 'Examples', 'ImageArray', 'Labelled', 'LabelledCodec',
           'LazyImages', 'Made', 'Packed', 'PairCodec', 'Pairs', 'PretrainedTokenizer', 'Pretraining',
           'Ragged', 'SOURCES', 'Source', 'SymbolTokenizer', 'Synthetic', 'Text', 'TextCodec', 'TextPair',
           'TextSource', 'Transform', 'UnigramTokenizer', 'Windows', 'bucket_lengths', 'check_task', 'decoded',
           'default_task', 'efficiency', 'evaluation_batches', 'evaluation_streams', 'inherited', 'is_endless',
           'load', 'load_codec', 'load_corpus', 'load_examples', 'load_labelled', 'load_pairs',
           'load_pretraining', 'load_text', 'made_for', 'open_text', 'pack', 'plan_buckets', 'prefetched',
           'read_examples', 'read_idx', 'saved_codec', 'training_batches', 'training_streams']
