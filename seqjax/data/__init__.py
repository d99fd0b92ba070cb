"""Sources, tokenizers and batches. Nothing else in seqjax imports grain or tfds."""

from seqjax.data.corpus import Corpus, load_corpus
from seqjax.data.loading import default_task, load
from seqjax.data.sources import Text, load_text
from seqjax.data.streams import evaluation_streams, training_streams
from seqjax.data.synthetic import GENERATORS, Synthetic
from seqjax.data.tokenizers import BPETokenizer, ByteTokenizer, CharTokenizer
from seqjax.data.windows import Windows, evaluation_batches, prefetched, training_batches

__all__ = ['BPETokenizer', 'ByteTokenizer', 'CharTokenizer', 'Corpus', 'GENERATORS', 'Synthetic', 'Text', 'Windows',
           'default_task', 'evaluation_batches', 'evaluation_streams', 'load', 'load_corpus', 'load_text', 'prefetched',
           'training_batches', 'training_streams']
