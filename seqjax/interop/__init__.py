"""Weights from and to other libraries, as named arrays; none of them is imported."""

from seqjax.interop.torch_rnn import from_torch_rnn, to_torch_rnn

__all__ = ['from_torch_rnn', 'to_torch_rnn']
