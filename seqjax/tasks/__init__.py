"""What is learned: batch and parameters in, sums out."""

from seqjax.tasks.language_model import LanguageModel
from seqjax.tasks.sums import Sums

__all__ = ['LanguageModel', 'Sums']
