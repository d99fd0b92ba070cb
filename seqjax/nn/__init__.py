"""Linen modules: parameters with named axes, around the functions of `seqjax.ops`."""

from seqjax.nn.projection import Embedding, OneHot, Projection, partitioned
from seqjax.nn.recurrent import GRU, LSTM, RNN, Recurrent, RecurrentLayer
from seqjax.nn.transformer import Block, CausalSelfAttention, FeedForward, layer_norm

__all__ = ['Block', 'CausalSelfAttention', 'Embedding', 'FeedForward', 'GRU', 'LSTM', 'OneHot', 'Projection', 'RNN',
           'Recurrent', 'RecurrentLayer', 'layer_norm', 'partitioned']
