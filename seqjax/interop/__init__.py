"""Weights from and to other libraries, as named arrays and as files; none of those libraries is imported."""

from seqjax.interop.hf_tokenizers import tokenizer_from_hf
from seqjax.interop.hugging_face import Loaded, from_hf, to_hf
from seqjax.interop.torch_rnn import from_torch_rnn, to_torch_rnn

__all__ = ['Loaded', 'from_hf', 'from_torch_rnn', 'to_hf', 'to_torch_rnn', 'tokenizer_from_hf']
