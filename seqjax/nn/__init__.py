"""Linen modules: parameters with named axes, around the functions of `seqjax.ops`."""

from seqjax.nn.projection import Embedding, Projection, partitioned
from seqjax.nn.recurrent import LSTM, LSTMLayer
from seqjax.nn.transformer import Block, CausalSelfAttention, FeedForward, layer_norm

__all__ = ['Block', 'CausalSelfAttention', 'Embedding', 'FeedForward', 'LSTM', 'LSTMLayer', 'Projection', 'layer_norm',
           'partitioned']
