"""What is learned: batch and parameters in, sums out."""

from seqjax.errors import FieldError, suggestion
from seqjax.tasks.language_model import LanguageModel
from seqjax.tasks.regression import Regression
from seqjax.tasks.sums import Sums

TASKS = {'language_model': LanguageModel, 'regression': Regression}

__all__ = ['LanguageModel', 'Regression', 'Sums', 'TASKS', 'build']


def build(name, model):
    """The task of that name around a linen module."""
    if name not in TASKS:
        raise FieldError('task', name, f'no such task; {suggestion(name, TASKS)}')
    return TASKS[name](model)
