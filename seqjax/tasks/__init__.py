"""What is learned: batch and parameters in, sums out."""

import dataclasses
from typing import Any

from flax import linen

from seqjax.registry import Registry
from seqjax.tasks.captioning import Captioning
from seqjax.tasks.classification import Classification
from seqjax.tasks.clip import CLIP
from seqjax.tasks.dino import DINO
from seqjax.tasks.forecasting import Forecasting
from seqjax.tasks.language_model import LanguageModel
from seqjax.tasks.masked_lm import MaskedLM, masked_count
from seqjax.tasks.regression import Regression
from seqjax.tasks.scheduled_sampling import Teacher, mixed_inputs
from seqjax.tasks.simclr import SimCLR
from seqjax.tasks.span_corruption import SpanCorruption, span_counts, text_length
from seqjax.tasks.sums import Sums
from seqjax.tasks.tagging import Tagging
from seqjax.tasks.task import Input, Task
from seqjax.tasks.translation import Translation

TASKS = Registry('task', {'language_model': LanguageModel, 'masked_lm': MaskedLM, 'span_corruption': SpanCorruption,
                          'classification': Classification, 'regression': Regression, 'tagging': Tagging,
                          'translation': Translation, 'captioning': Captioning, 'simclr': SimCLR, 'dino': DINO,
                          'clip': CLIP, 'forecasting': Forecasting})

__all__ = ['CLIP', 'Captioning', 'Classification', 'DINO', 'Forecasting', 'Input', 'LanguageModel', 'MaskedLM', 'Regression', 'SimCLR',
           'SpanCorruption', 'Sums', 'TASKS', 'Tagging', 'Task', 'Teacher', 'Translation', 'build', 'masked_count', 'mixed_inputs', 'register', 'span_counts', 'taking',
           'text_length']

register = TASKS.register


def taking(*kinds: str) -> list[str]:
    """The names of the tasks that are learned from what `Task.takes` says, in the order of registration."""
    return [name for name, task in TASKS.items() if task.takes() in kinds]


def build(name: str, model: linen.Module | None, **from_data: Any) -> Task:
    """The task of that name around a linen module. from_data: what the data knows (the names of classes, ...)."""
    taken = {field.name for field in dataclasses.fields(TASKS[name])}
    return TASKS[name](model, **{name: value for name, value in from_data.items() if name in taken})
