"""Linen modules: parameters with named axes, around the functions of `seqjax.ops`."""

from seqjax.nn.attention import Attention
from seqjax.nn.convolution import Convolution, ConvolutionalEncoder
from seqjax.nn.encoders import AttentionEncoder, RecurrentEncoder
from seqjax.nn.feed_forward import ACTIVATIONS, FeedForward, MixtureOfExperts, activation_function
from seqjax.nn.mamba import Mamba
from seqjax.nn.multi_head import Context, CrossAttention, LinearAttention, MultiHeadAttention
from seqjax.nn.norms import NORMS, layer_norm, make_norm
from seqjax.nn.pooling import Pooling
from seqjax.nn.positions import POSITIONS, Positions
from seqjax.nn.projection import Embedding, OneHot, Projection, fan_in, partitioned
from seqjax.nn.recurrent import GRU, LSTM, REGULARISERS, RNN, Recurrent, RecurrentLayer, Regularisers
from seqjax.nn.rwkv import ChannelMixing, TimeMixing
from seqjax.nn.transformer import ORDERS, Block, ResidualBlock, Stack, check_sizes, maker
from seqjax.nn.words import Spelling, WordEmbedding, WordVectors

__all__ = ['ACTIVATIONS', 'Attention', 'AttentionEncoder', 'Block', 'ChannelMixing', 'Context',
           'Convolution', 'ConvolutionalEncoder', 'CrossAttention', 'Embedding', 'FeedForward',
           'GRU', 'LSTM', 'LinearAttention', 'Mamba', 'MixtureOfExperts', 'MultiHeadAttention',
           'NORMS', 'ORDERS', 'OneHot', 'POSITIONS', 'Pooling', 'Positions', 'Projection',
           'REGULARISERS', 'RNN', 'Recurrent', 'RecurrentEncoder', 'RecurrentLayer',
           'Regularisers', 'ResidualBlock', 'Spelling', 'Stack', 'TimeMixing', 'WordEmbedding',
           'WordVectors', 'activation_function', 'check_sizes', 'fan_in', 'layer_norm',
           'make_norm', 'maker', 'partitioned']
