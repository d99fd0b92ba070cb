"""Whole networks by name. A model's fields are the fields of its linen module; `config.model` holds just those."""

import dataclasses
import math

from seqjax import ops
from seqjax.errors import FieldError, suggestion
from seqjax.models.bert import BERT
from seqjax.models.decoder_only import GPT, Llama
from seqjax.models.encoder_decoder import T5, Transformer
from seqjax.models.ladder import PerStep, Unshared
from seqjax.models.mamba import Mamba
from seqjax.models.matching import match_width, parameter_count
from seqjax.models.presets import PRESETS
from seqjax.models.reader import Reader
from seqjax.models.recurrent import RecurrentLanguageModel
from seqjax.models.rwkv import RWKV
from seqjax.models.seq2seq import Seq2Seq
from seqjax.models.transformer_fields import TransformerFields
from seqjax.special_tokens import END

MODELS = {'gpt': GPT, 'llama': Llama, 'bert': BERT, 'transformer': Transformer, 't5': T5, 'recurrent': RecurrentLanguageModel,
          'mamba': Mamba, 'rwkv': RWKV, 'reader': Reader, 'seq2seq': Seq2Seq, 'per_step': PerStep, 'unshared': Unshared}
CARRYING = tuple(name for name, model in MODELS.items() if getattr(model, 'carries', False))
PACKING = tuple(name for name, model in MODELS.items() if getattr(model, 'packs', False))
DTYPES = ('float32', 'bfloat16')
FROM_DATA = ('vocabulary', 'context_length', 'outputs', 'per_step', 'characters', 'table', 'target_vocabulary', 'shared',
             'end')  # what the data decides

__all__ = ['BERT', 'CARRYING', 'DTYPES', 'GPT', 'Llama', 'MODELS', 'Mamba', 'PACKING', 'PRESETS', 'PerStep', 'RWKV', 'Reader',
           'RecurrentLanguageModel', 'Seq2Seq', 'T5', 'Transformer', 'Unshared', 'build', 'check_task', 'fields', 'is_recurrent',
           'match_width', 'parameter_count', 'preset', 'width_multiple']


def fields(name):
    """The fields of model `name` that a config sets, with their defaults."""
    _known(name)
    return {f.name: f.default for f in dataclasses.fields(MODELS[name])
            if f.init and f.name not in (*FROM_DATA, 'parent', 'name')}


def check_task(name, task, output_kind):
    """Model `name` must be one that computes what `task` needs, its `Task.output_kind`."""
    _known(name)
    if output_kind not in MODELS[name].output_kinds:
        able = [other for other, model in MODELS.items() if output_kind in model.output_kinds]
        raise FieldError('name', name, f'cannot learn {task!r}, which the data is for; models that can: {", ".join(able)}')


def is_recurrent(name, chosen):
    """Whether model `name` with the fields `chosen` has recurrent layers between its input and its output."""
    values = {**fields(name), **chosen}
    return values.get('cell', values.get('encoder')) in ops.CELLS


def width_multiple(name, chosen):
    """What the width of model `name` must be a multiple of: attention has heads of one size, and positions in pairs."""
    values = {**fields(name), **chosen}
    if not issubclass(MODELS[name], TransformerFields) and values.get('encoder') != 'attention':
        return 1
    heads = 1 if values.get('head_width') else values['heads']
    return 2 * heads if values.get('positions') == 'rotary' else math.lcm(2, heads)


def build(name, *, vocabulary, context_length=None, outputs=2, per_step=False, characters=None, table=None,
          target_vocabulary=0, shared=False, end=END, **chosen):
    """The linen module of model `name`, its fields checked before anything is compiled.

    What is named here comes from the data, and a model takes of it what it has fields for; `chosen` comes from the config.
    """
    known = fields(name)
    for field, value in chosen.items():
        if field not in known:
            raise FieldError(field, value, f"'{name}' has no such field; {suggestion(field, known)}")
    if not 0 <= chosen.get('dropout', 0) < 1:
        raise FieldError('dropout', chosen['dropout'], 'must be at least 0 and less than 1')
    if chosen.get('dtype', 'float32') not in DTYPES:
        raise FieldError('dtype', chosen['dtype'], f'choose one of: {", ".join(DTYPES)}')
    from_data = dict(zip(FROM_DATA, (vocabulary, context_length, outputs, per_step, characters, table,
                                     target_vocabulary, shared, end)))
    taken = {f.name for f in dataclasses.fields(MODELS[name])}
    return MODELS[name](**{k: v for k, v in from_data.items() if k in taken}, **chosen)


def preset(name, **changes):
    """The linen module of a published size, see `presets`; `changes` are of its fields. BERT is the one that fills in."""
    if name not in PRESETS:
        raise FieldError('preset', name, f'no such preset; {suggestion(name, PRESETS)}')
    model, chosen, vocabulary, context_length = PRESETS[name]
    from_data = dict(vocabulary=vocabulary, context_length=context_length, outputs=0, shared=True)
    return build(model, **{**from_data, **chosen, **changes})


def _known(name):
    if name not in MODELS:
        raise FieldError('name', name, f'no such model; {suggestion(name, MODELS)}')
