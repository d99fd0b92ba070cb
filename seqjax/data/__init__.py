"""Text sources, tokenizers and batches. Nothing else in seqjax imports grain or tfds."""

from seqjax.data.corpus import Corpus, load_corpus
from seqjax.data.sources import Text, load_text
from seqjax.data.tokenizers import BPETokenizer, ByteTokenizer, CharTokenizer
from seqjax.data.windows import Windows, evaluation_batches, prefetched, training_batches

__all__ = ['BPETokenizer', 'ByteTokenizer', 'CharTokenizer', 'Corpus', 'Text', 'Windows', 'evaluation_batches', 'load_corpus',
           'load_text', 'prefetched', 'training_batches']
