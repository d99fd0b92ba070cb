"""Whole networks by name. A model's fields are the fields of its linen module; `config.model` holds just those."""

import dataclasses

from seqjax.errors import FieldError, suggestion
from seqjax.models.gpt import GPT
from seqjax.models.lstm import LSTMLanguageModel

MODELS = {'gpt': GPT, 'lstm': LSTMLanguageModel}
DTYPES = ('float32', 'bfloat16')
FROM_DATA = ('vocabulary', 'context_length')  # what the data decides

__all__ = ['DTYPES', 'GPT', 'LSTMLanguageModel', 'MODELS', 'build', 'fields']


def fields(name):
    """The fields of model `name` that a config sets, with their defaults."""
    if name not in MODELS:
        raise FieldError('name', name, f'no such model; {suggestion(name, MODELS)}')
    return {f.name: f.default for f in dataclasses.fields(MODELS[name])
            if f.init and f.name not in (*FROM_DATA, 'parent', 'name')}


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
