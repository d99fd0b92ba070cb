"""Layers of networks that read images."""

from seqjax.nn.vision.image_tokens import ConvolutionalStem, GridPositions, PatchEmbedding, pixels
from seqjax.nn.vision.non_local import NON_LOCAL, NonLocalBlock
from seqjax.nn.vision.norms import IMAGE_NORMS, GroupNorm, image_norm
from seqjax.nn.vision.residual import REDUCTION, SHORTCUTS, UNITS, ImageConvolution, ResidualUnit
from seqjax.nn.vision.scaled_block import ScaledBlock
from seqjax.nn.vision.token_pooling import TOKEN_POOLINGS, TokenPooling

__all__ = ['ConvolutionalStem', 'GridPositions', 'GroupNorm', 'IMAGE_NORMS', 'ImageConvolution', 'NON_LOCAL', 'NonLocalBlock', 'PatchEmbedding', 'REDUCTION',
           'ResidualUnit', 'SHORTCUTS', 'ScaledBlock', 'TOKEN_POOLINGS', 'TokenPooling', 'UNITS', 'image_norm', 'pixels']
