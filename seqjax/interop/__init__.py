"""Weights from and to other libraries, as named arrays and as files, and exported runs; none of those libraries is imported.

A name is imported when it is first used: an exported run needs no model, and so loads none.
"""

from seqjax import lazy

__getattr__, __dir__, __all__ = lazy.names(__name__, {
    'exported': ('ExportedModel', 'load_exported'),
    'hf_tokenizer_files': ('tokenizer_to_hf',),
    'hf_tokenizers': ('has_tokenizer', 'tokenizer_from_hf'),
    'hugging_face': ('Loaded', 'from_hf', 'to_hf'),
    'torch_rnn': ('from_torch_rnn', 'to_torch_rnn'),
})
