"""Sources, tokenizers and batches. Nothing else in seqjax imports grain or tfds."""

from seqjax.data.batching import Ragged, bucket_lengths, efficiency, plan_buckets
from seqjax.data.catalogue import Text
from seqjax.data.corpus import Corpus, load_corpus, text_fields
from seqjax.data.encoding import Encoding
from seqjax.data.examples import Example, Examples, TextPair
from seqjax.data.inheritance import inherited
from seqjax.data.labelled import Labelled, load_labelled
from seqjax.data.loading import EMBEDDED, check_task, default_task, load, load_examples
from seqjax.data.packing import Documents, Packed, pack
from seqjax.data.pair_encoding import PairEncoding
from seqjax.data.pairs import Pairs, load_pairs
from seqjax.data.pretrained_tokenizer import PretrainedTokenizer
from seqjax.data.pretraining import Pretraining, load_pretraining
from seqjax.data.readers import read_examples
from seqjax.data.sources import load_text
from seqjax.data.streams import evaluation_streams, training_streams
from seqjax.data.synthetic import GENERATORS, Synthetic
from seqjax.data.tokenizers import BPETokenizer, ByteTokenizer, CharTokenizer, SymbolTokenizer, UnigramTokenizer
from seqjax.data.windows import Windows, evaluation_batches, prefetched, training_batches

__all__ = ['BPETokenizer', 'ByteTokenizer', 'CharTokenizer', 'Corpus', 'Documents', 'EMBEDDED', 'Encoding', 'Example',
           'Examples', 'GENERATORS', 'Labelled', 'Packed', 'PairEncoding', 'Pairs', 'PretrainedTokenizer', 'Pretraining',
           'Ragged', 'SymbolTokenizer', 'Synthetic', 'Text', 'TextPair', 'UnigramTokenizer', 'Windows', 'bucket_lengths',
           'check_task', 'default_task', 'efficiency', 'evaluation_batches', 'evaluation_streams', 'inherited', 'load', 'load_corpus', 'load_examples', 'load_labelled',
           'load_pairs', 'load_pretraining', 'load_text', 'pack', 'plan_buckets', 'prefetched', 'read_examples',
           'text_fields', 'training_batches', 'training_streams']
