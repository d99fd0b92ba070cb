"""Whole networks by name. A model's fields are the fields of its linen module; `config.model` holds just those."""

import dataclasses

from seqjax.errors import FieldError, suggestion
from seqjax.models.gpt import GPT
from seqjax.models.ladder import PerStep, Unshared
from seqjax.models.recurrent import RecurrentLanguageModel, RecurrentRegressor

MODELS = {'gpt': GPT, 'recurrent': RecurrentLanguageModel, 'recurrent_regressor': RecurrentRegressor, 'per_step': PerStep,
          'unshared': Unshared}
CARRYING = tuple(name for name, model in MODELS.items() if getattr(model, 'carries', False))
DTYPES = ('float32', 'bfloat16')
FROM_DATA = ('vocabulary', 'context_length')  # what the data decides

__all__ = ['CARRYING', 'DTYPES', 'GPT', 'MODELS', 'PerStep', 'RecurrentLanguageModel', 'RecurrentRegressor', 'Unshared',
           'build', 'check_task', 'fields']


def fields(name):
    """The fields of model `name` that a config sets, with their defaults."""
    _known(name)
    return {f.name: f.default for f in dataclasses.fields(MODELS[name])
            if f.init and f.name not in (*FROM_DATA, 'parent', 'name')}


def check_task(name, task):
    """Model `name` must be one that can learn `task`."""
    _known(name)
    if task not in MODELS[name].tasks:
        able = [other for other, model in MODELS.items() if task in model.tasks]
        raise FieldError('name', name, f'cannot learn {task!r}, which the data is for; models that can: {", ".join(able)}')


def build(name, *, vocabulary, context_length, **chosen):
    """The linen module of model `name`, its fields checked before anything is compiled."""
    known = fields(name)
    for field, value in chosen.items():
        if field not in known:
            raise FieldError(field, value, f"'{name}' has no such field; {suggestion(field, known)}")
    if not 0 <= chosen.get('dropout', 0) < 1:
        raise FieldError('dropout', chosen['dropout'], 'must be at least 0 and less than 1')
    if chosen.get('dtype', 'float32') not in DTYPES:
        raise FieldError('dtype', chosen['dtype'], f'choose one of: {", ".join(DTYPES)}')
    from_data = dict(vocabulary=vocabulary, context_length=context_length)
    taken = {f.name for f in dataclasses.fields(MODELS[name])}
    return MODELS[name](**{k: v for k, v in from_data.items() if k in taken}, **chosen)


def _known(name):
    if name not in MODELS:
        raise FieldError('name', name, f'no such model; {suggestion(name, MODELS)}')
