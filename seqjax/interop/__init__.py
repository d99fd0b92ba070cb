"""Weights from and to other libraries, as named arrays and as files, and exported runs; none of those libraries is imported.

A name is imported when it is first used: an exported run needs no model, and so loads none.
"""

import importlib

NAMES = {
    'exported': ('ExportedModel', 'load_exported'),
    'hf_tokenizer_files': ('tokenizer_to_hf',),
    'hf_tokenizers': ('has_tokenizer', 'tokenizer_from_hf'),
    'hugging_face': ('Loaded', 'from_hf', 'to_hf'),
    'torch_rnn': ('from_torch_rnn', 'to_torch_rnn'),
}
__all__ = sorted(name for names in NAMES.values() for name in names)


def __getattr__(name):
    for module, names in NAMES.items():
        if name in names:
            return getattr(importlib.import_module(f'seqjax.interop.{module}'), name)
    raise AttributeError(f"module 'seqjax.interop' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
