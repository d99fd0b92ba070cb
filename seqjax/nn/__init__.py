"""Linen modules: parameters with named axes, around the functions of `seqjax.ops`."""

from seqjax.nn.convolution import Convolution, ConvolutionalEncoder
from seqjax.nn.encoders import AttentionEncoder, RecurrentEncoder
from seqjax.nn.pooling import Pooling
from seqjax.nn.projection import Embedding, OneHot, Projection, partitioned
from seqjax.nn.recurrent import GRU, LSTM, RNN, Recurrent, RecurrentLayer
from seqjax.nn.transformer import Block, FeedForward, SelfAttention, check_sizes, layer_norm
from seqjax.nn.words import Spelling, WordEmbedding, WordVectors

__all__ = ['AttentionEncoder', 'Block', 'Convolution', 'ConvolutionalEncoder', 'Embedding', 'FeedForward', 'GRU', 'LSTM',
           'OneHot', 'Pooling', 'Projection', 'RNN', 'Recurrent', 'RecurrentEncoder', 'RecurrentLayer', 'SelfAttention',
           'Spelling', 'WordEmbedding', 'WordVectors', 'check_sizes', 'layer_norm', 'partitioned']
