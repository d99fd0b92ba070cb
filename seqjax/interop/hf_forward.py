"""Inputs and outputs by the names that Hugging Face has for them.

Shapes: B rows, T steps, S source steps, D width, V vocabulary.
"""

import numpy as np

from seqjax.errors import FieldError, suggestion
from seqjax.interop.hf_names import ARCHITECTURES
from seqjax.interop.hf_vision import forward as vision

INPUTS = {'gpt2': ('input_ids', 'attention_mask', 'position_ids'),
          'llama': ('input_ids', 'attention_mask', 'position_ids'),
          'mixtral': ('input_ids', 'attention_mask', 'position_ids'),
          'bert': ('input_ids', 'attention_mask', 'token_type_ids', 'position_ids'),
          't5': ('input_ids', 'attention_mask', 'decoder_input_ids', 'decoder_attention_mask'),
          'mamba': ('input_ids', 'attention_mask'), 'rwkv': ('input_ids', 'attention_mask'), **vision.INPUTS}
IDS = {'input_ids': 'vocabulary', 'decoder_input_ids': 'vocabulary', 'token_type_ids': 'typed', 'position_ids': 'context_length'}


def forward(model, architecture, arrays):
    """{name: array}, as this class of transformers returns them; a method for `model.apply`. arrays: see `prepare`."""
    kind, parts = ARCHITECTURES[architecture]
    if kind in vision.INPUTS:
        return vision.forward(model, architecture, **arrays)
    if kind == 't5':
        return _t5(model, parts, **arrays)
    if kind == 'bert':
        return _bert(model, architecture, **arrays)
    return _decoder_only(model, parts, **arrays)


# --------------------------------------------------------------------------------------------------------------- Networks

def _decoder_only(model, parts, input_ids, attention_mask, position_ids=None):
    hidden, _ = model.hidden(input_ids, **({} if position_ids is None else dict(steps=position_ids)), **attention_mask)
    return dict(logits=model.score(hidden)) if 'head' in parts else dict(last_hidden_state=hidden)


def _t5(model, parts, input_ids, attention_mask, decoder_input_ids=None, decoder_attention_mask=None):
    encoded = model.encode(input_ids, **attention_mask)
    if 'decoder' not in parts:
        return dict(last_hidden_state=encoded)
    lengths, source, target = attention_mask.get('lengths'), attention_mask.get('seen'), decoder_attention_mask
    hidden, _ = model.write(encoded, decoder_input_ids, lengths, seen=target, seen_source=source)
    answer = dict(logits=model.score(hidden)) if 'head' in parts else dict(last_hidden_state=hidden)
    return dict(answer, encoder_last_hidden_state=encoded)


def _bert(model, architecture, input_ids, attention_mask, token_type_ids, position_ids=None):
    hidden = model.encode(input_ids, types=token_type_ids, steps=position_ids, **attention_mask)  # [B, T, D]
    match architecture:
        case 'BertForMaskedLM':
            return dict(logits=model.fill_in(hidden))
        case 'BertForPreTraining':
            return dict(prediction_logits=model.fill_in(hidden), seq_relationship_logits=model.next(model.pool(hidden)))
        case 'BertForNextSentencePrediction':
            return dict(logits=model.next(model.pool(hidden)))
        case 'BertForSequenceClassification':
            return dict(logits=model.classifier(model.pool(hidden)))
        case 'BertForTokenClassification':
            return dict(logits=model.classifier(hidden))
        case 'BertForQuestionAnswering':
            logits = model.classifier(hidden)  # [B, T, 2]
            return dict(start_logits=logits[..., 0], end_logits=logits[..., 1])
    pooled = dict(pooler_output=model.pool(hidden)) if 'pooler' in model.variables['params'] else {}
    return dict(last_hidden_state=hidden, **pooled)


# ----------------------------------------------------------------------------------------------------------------- Inputs

def prepare(model, architecture, inputs, config):
    """The arrays that `forward` takes; what a model cannot read is refused by its name. config: config.json.

    attention_mask becomes dict(lengths=[B]) where it hides the ends of rows and nothing else, so that attention may leave out
    whole blocks, and otherwise dict(seen=[B, T]).
    """
    kind, parts = ARCHITECTURES[architecture]
    known = INPUTS[kind] if kind != 't5' or 'decoder' in parts else INPUTS[kind][:2]
    for name in inputs:
        if name not in known:
            raise FieldError(name, '...', f'{architecture} has no such input; {suggestion(name, known)}')
    images = {}
    if 'pixel_values' in known:
        if inputs.get('pixel_values') is None:
            raise FieldError('pixel_values', None, f'{architecture} needs images, [images, channels, height, width]')
        images = dict(images=vision.prepared_images(inputs['pixel_values'], config))
        inputs = {name: value for name, value in inputs.items() if name != 'pixel_values'}
    if 'input_ids' not in known:
        return images
    for name in ('input_ids', 'decoder_input_ids'):
        if name in known and inputs.get(name) is None:
            raise FieldError(name, None, f'{architecture} needs token numbers, [rows, steps]')
    arrays = {name: _numbers(name, value, IDS, model) for name, value in inputs.items() if value is not None}
    for name, ids in (('attention_mask', 'input_ids'), ('decoder_attention_mask', 'decoder_input_ids')):
        if name in arrays:
            arrays[name] = _seen(name, arrays[name], arrays[ids].shape)
    for name in ('token_type_ids', 'position_ids'):
        if name in arrays:
            arrays[name] = _broadcast(name, arrays[name], arrays['input_ids'].shape)
    if kind == 'bert':
        arrays.setdefault('token_type_ids', np.zeros_like(arrays['input_ids']))
    arrays['attention_mask'] = _mask(arrays.get('attention_mask'))
    if kind in ('mamba', 'rwkv') and 'seen' in arrays['attention_mask']:
        raise FieldError('attention_mask', '...', f'{architecture} carries a state from step to step, and can leave out only the '
                         'ends of rows; put the padding there')
    if kind == 'clip':
        arrays['ends'] = vision.ends_of(arrays['input_ids'], config)
    return {**images, **arrays}


def _numbers(name, value, limits, model):
    value = np.asarray(value)
    if value.ndim != 2 or value.dtype.kind not in 'biu':
        raise FieldError(name, f'{value.dtype} {list(value.shape)}', 'must be whole numbers, [rows, steps]')
    limit = getattr(model, limits[name]) if name in limits else None
    if limit is not None and value.size and not 0 <= value.min() <= value.max() < limit:
        raise FieldError(name, int(value.min() if value.min() < 0 else value.max()),
                         f'must be at least 0 and less than {limits[name]}={limit}')
    return value.astype(np.int32)


def _seen(name, value, shape):
    if value.shape != shape or not np.isin(value, (0, 1)).all():
        raise FieldError(name, list(value.shape), f'must be of 0 and 1, {list(shape)} as the tokens are')
    return value.astype(bool)


def _broadcast(name, value, shape):
    if value.shape not in (shape, (1, shape[1])):
        raise FieldError(name, list(value.shape), f'must be {list(shape)} as the tokens are')
    return np.broadcast_to(value, shape)


def _mask(seen):
    if seen is None or seen.all():
        return {}
    lengths = seen.sum(axis=1)
    right = np.arange(seen.shape[1]) < lengths[:, None]
    return dict(lengths=lengths.astype(np.int32)) if (seen == right).all() else dict(seen=seen)
