"""Whole networks by name; `config.model` holds the fields of their linen modules.

    @models.register('mine')
    class Mine(models.LanguageModel): ...      # a name for config.model.name
"""

from collections.abc import Mapping
import dataclasses
import math
from typing import Any

from flax import linen

from seqjax import ops
from seqjax.errors import FieldError, suggestion
from seqjax.fields import new_name
from seqjax.models.bert import BERT, EncoderOnly
from seqjax.models.composed import Composed
from seqjax.models.decoder_only import GPT, DecoderOnly, Llama
from seqjax.models.encoder_decoder import T5, EncoderDecoder, Transformer
from seqjax.models.from_config import TransformerFields
from seqjax.models.language_model import LanguageModel
from seqjax.models.mamba import Mamba
from seqjax.models.matching import match_width, parameter_count
from seqjax.models.presets import PRESETS
from seqjax.models.reader import Reader
from seqjax.models.recurrent import RecurrentLanguageModel
from seqjax.models.rwkv import RWKV
from seqjax.models.seq2seq import Seq2Seq
from seqjax.models.stateful import StatefulLanguageModel
from seqjax.models.statistics import WithStatistics
from seqjax.models.vision import (CCT, CLIP, IMAGE_PRESETS, Captioner, DualEncoder, ImageTransformer, ResNet, TransformerCaptioner,
                                  VideoReader, ViT)
from seqjax.registry import Registry

MODELS = Registry('model', {
    'gpt': GPT, 'llama': Llama, 'bert': BERT, 'transformer': Transformer, 't5': T5,
    'recurrent': RecurrentLanguageModel, 'mamba': Mamba, 'rwkv': RWKV, 'reader': Reader,
    'seq2seq': Seq2Seq, 'vit': ViT, 'cct': CCT, 'resnet': ResNet, 'video': VideoReader, 'clip': CLIP,
    'captioner': Captioner, 'transformer_captioner': TransformerCaptioner})
register = MODELS.register
DTYPES = ('float32', 'bfloat16')
# What the data decides of a model: these fields, and those without a default or with None for one.
FROM_DATA = ('vocabulary', 'context_length', 'outputs', 'per_step', 'characters', 'table',
             'target_vocabulary', 'shared', 'end')

__all__ = ['BERT', 'CCT', 'CLIP', 'Captioner', 'Composed', 'DTYPES', 'DecoderOnly', 'DualEncoder', 'EncoderDecoder',
           'EncoderOnly', 'FROM_DATA', 'GPT', 'IMAGE_PRESETS', 'ImageTransformer', 'LanguageModel', 'Llama',
           'MODELS', 'Mamba', 'PRESETS', 'RWKV', 'Reader', 'RecurrentLanguageModel', 'ResNet', 'Seq2Seq',
           'StatefulLanguageModel', 'T5', 'Transformer', 'TransformerCaptioner', 'TransformerFields', 'ViT', 'VideoReader', 'WithStatistics', 'able',
           'build', 'check_task', 'fields', 'is_recurrent', 'match_width', 'parameter_count', 'preset',
           'register', 'width_multiple']


def fields(model: str | type[linen.Module] | linen.Module) -> dict[str, Any]:
    """The fields that a config sets: of a name or class with their defaults, of a module its own."""
    if isinstance(model, str):
        _known(model)
        model = MODELS[model]
    chosen = {f.name: f.default for f in dataclasses.fields(model)
              if f.init and f.name not in (*FROM_DATA, 'parent', 'name')
              and f.default not in (None, dataclasses.MISSING)}
    return chosen if isinstance(model, type) else {name: getattr(model, name) for name in chosen}


def able(ability: str) -> tuple[str, ...]:
    """Names of models that have it: 'carries' (state between batches) or 'packs' (packed rows)."""
    return tuple(name for name, model in MODELS.items() if getattr(model, ability, False))


def check_task(name: str, task: str, output_kind: str) -> None:
    """Model `name` must be one that computes what `task` needs, its `Task.output_kind`."""
    _known(name)
    if output_kind not in MODELS[name].output_kinds:
        able = [other for other, model in MODELS.items() if output_kind in model.output_kinds]
        raise FieldError('name', name, f'cannot learn {task!r}, which the data is for; models that can: {", ".join(able)}')


def is_recurrent(name: str, chosen: Mapping[str, Any]) -> bool:
    """Whether model `name` with the fields `chosen` has recurrent layers."""
    values = {**fields(name), **chosen}
    return values.get('cell', values.get('encoder')) in ops.CELLS


def width_multiple(name: str, chosen: Mapping[str, Any]) -> int:
    """What its width must be a multiple of: heads have one size, and positions are pairs."""
    values = {**fields(name), **chosen}
    if not issubclass(MODELS[name], (TransformerFields, ImageTransformer)) and values.get('encoder') != 'attention':
        return 1
    heads = 1 if values.get('head_width') else values['heads']
    return 2 * heads if values.get('positions') == 'rotary' else math.lcm(2, heads)


def build(name: str, from_data: Mapping[str, Any] = {}, /, **chosen: Any) -> linen.Module:
    """The linen module of model `name`, its fields checked before anything is compiled.

        models.build('gpt', dataset.for_model(), width=256, depth=6)
        models.build('gpt', vocabulary=256, context_length=128, width=256)    # without a dataset

    Args:
        name: of `models.MODELS`.
        from_data: what the data decides, as `dataset.for_model()` says it; a model takes of it what
            it has fields for. The same holds for names of `FROM_DATA` in `chosen`.
        chosen: the other fields.
    """
    known = fields(name)
    taken = {f.name for f in dataclasses.fields(MODELS[name]) if f.init} - {'parent', 'name'}
    given = {'outputs': 2} | dict(from_data) | {k: v for k, v in chosen.items() if k in FROM_DATA}
    chosen = {k: v for k, v in chosen.items() if k not in FROM_DATA}
    for field, value in chosen.items():
        if field not in taken:
            new = new_name('model', field, taken)
            raise FieldError(field, value, f'is called {new} now' if new else f"'{name}' has no such field; {suggestion(field, known)}")
    if not 0 <= chosen.get('dropout', 0) < 1:
        raise FieldError('dropout', chosen['dropout'], 'must be at least 0 and less than 1')
    if chosen.get('dtype', 'float32') not in DTYPES:
        raise FieldError('dtype', chosen['dtype'], f'choose one of: {", ".join(DTYPES)}')
    return MODELS[name](**{k: v for k, v in given.items() if k in taken}, **chosen)


def preset(name: str, **changes: Any) -> linen.Module:
    """The linen module of a published size with other fields where asked; BERT has its MLM head."""
    if name in IMAGE_PRESETS:
        model, chosen, _, outputs = IMAGE_PRESETS[name]
        return build(model, **{'outputs': outputs, **chosen, **changes})
    if name not in PRESETS:
        raise FieldError('preset', name, f'no such preset; {suggestion(name, (*PRESETS, *IMAGE_PRESETS))}')
    model, chosen, vocabulary, context_length = PRESETS[name]
    from_data = dict(vocabulary=vocabulary, context_length=context_length, outputs=0, shared=True)
    return build(model, **{**from_data, **chosen, **changes})


def _known(name):
    if name not in MODELS:
        raise FieldError('name', name, f'no such model; {suggestion(name, MODELS)}')
