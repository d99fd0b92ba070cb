"""What is learned: batch and parameters in, sums out."""

import dataclasses

from seqjax.errors import FieldError, suggestion
from seqjax.tasks.classification import Classification
from seqjax.tasks.language_model import LanguageModel
from seqjax.tasks.masked_lm import MaskedLM
from seqjax.tasks.regression import Regression
from seqjax.tasks.scheduled_sampling import Teacher, mixed_inputs
from seqjax.tasks.sums import Sums
from seqjax.tasks.tagging import Tagging
from seqjax.tasks.translation import Translation

TASKS = {'language_model': LanguageModel, 'masked_lm': MaskedLM, 'span_corruption': Translation,
         'classification': Classification, 'regression': Regression, 'tagging': Tagging, 'translation': Translation}

__all__ = ['Classification', 'LanguageModel', 'MaskedLM', 'Regression', 'Sums', 'TASKS', 'Tagging', 'Teacher', 'Translation',
           'build', 'mixed_inputs']


def build(name, model, **from_data):
    """The task of that name around a linen module. from_data: what the data knows (the names of classes, ...)."""
    if name not in TASKS:
        raise FieldError('task', name, f'no such task; {suggestion(name, TASKS)}')
    taken = {field.name for field in dataclasses.fields(TASKS[name])}
    return TASKS[name](model, **{name: value for name, value in from_data.items() if name in taken})
