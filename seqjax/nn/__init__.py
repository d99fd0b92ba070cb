"""Linen modules: parameters with named axes, around the functions of `seqjax.ops`."""

from seqjax.nn.attention import Attention
from seqjax.nn.batch_norm import BatchNorm
from seqjax.nn.convolution import Convolution, ConvolutionalEncoder
from seqjax.nn.encoders import AttentionEncoder, RecurrentEncoder
from seqjax.nn.feed_forward import ACTIVATIONS, FeedForward, MixtureOfExperts, activation_function
from seqjax.nn.mamba import Mamba
from seqjax.nn.multi_head import Context, CrossAttention, LinearAttention, MultiHeadAttention
from seqjax.nn.norms import NORMS, layer_norm, make_norm
from seqjax.nn.pooling import Pooling
from seqjax.nn.positions import POSITIONS, Positions
from seqjax.nn.projection import Embedding, OneHot, Projection, fan_in, partitioned
from seqjax.nn.projection_heads import ProjectionHead, PrototypeHead
from seqjax.nn.recurrent import GRU, LSTM, REGULARISERS, RNN, Recurrent, RecurrentLayer, Regularisers
from seqjax.nn.rwkv import ChannelMixing, TimeMixing
from seqjax.nn.transformer import NORM_POSITIONS, Block, ResidualBlock, Stack, check_sizes, maker
from seqjax.nn.vision import (IMAGE_NORMS, NON_LOCAL, REDUCTION, SHORTCUTS, TOKEN_POOLINGS, UNITS, ConvolutionalStem,
                              GridPositions, GroupNorm, ImageConvolution, NonLocalBlock, PatchEmbedding, ResidualUnit,
                              ScaledBlock, TokenPooling, image_norm, pixels)
from seqjax.nn.words import Spelling, WordEmbedding, WordVectors

__all__ = ['ACTIVATIONS', 'Attention', 'AttentionEncoder', 'BatchNorm', 'Block', 'ChannelMixing', 'Context',
           'Convolution', 'ConvolutionalEncoder', 'ConvolutionalStem', 'CrossAttention', 'Embedding', 'FeedForward',
           'GRU', 'GridPositions', 'GroupNorm', 'IMAGE_NORMS', 'ImageConvolution', 'LSTM', 'LinearAttention',
           'Mamba', 'MixtureOfExperts', 'MultiHeadAttention', 'NON_LOCAL', 'NORMS', 'NORM_POSITIONS',
           'NonLocalBlock', 'OneHot', 'POSITIONS', 'PatchEmbedding', 'Pooling', 'Positions', 'Projection',
           'ProjectionHead', 'PrototypeHead', 'REDUCTION', 'REGULARISERS', 'RNN', 'Recurrent', 'RecurrentEncoder',
           'RecurrentLayer', 'Regularisers', 'ResidualBlock', 'ResidualUnit', 'SHORTCUTS', 'ScaledBlock',
           'Spelling', 'Stack', 'TOKEN_POOLINGS', 'TimeMixing', 'TokenPooling', 'UNITS', 'WordEmbedding',
           'WordVectors', 'activation_function', 'check_sizes', 'fan_in', 'image_norm', 'layer_norm', 'make_norm',
           'maker', 'partitioned', 'pixels']
