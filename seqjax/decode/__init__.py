"""Generation for every model through one step interface."""

from seqjax.decode.generate import generate
from seqjax.decode.sampling import Sampler, keep_top_k, keep_top_p

__all__ = ['Sampler', 'generate', 'keep_top_k', 'keep_top_p']
