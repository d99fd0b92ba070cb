"""What a record says, as an example of a task: a class, a number, a label for every step, or a translation."""

import math

import numpy as np

from seqjax.data.readers.examples import Example, TextPair
from seqjax.data.readers.lines import Malformed, plural
from seqjax.data.readers.numbers import PerStep, frames_of

_NAMES = {str: 'a text', list: 'a list', dict: 'an object', bool: 'true or false', int: 'a number', float: 'a number',
          type(None): 'null', TextPair: 'two texts', np.ndarray: 'numbers', PerStep: 'a target a step'}
LARGEST = float(np.finfo(np.float32).max)  # targets are float32 by the time they are learned from


def type_name(value):
    """What a value of JSON is, for a reader."""
    return _NAMES[type(value)]


def _sequence(value):
    """A text, words, numbers or two texts."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, TextPair):
        for which, text in (('first', value.first), ('second', value.second)):
            if not isinstance(text, str):
                raise Malformed(f'the {which} input is {type_name(text)} and a text is needed')
            if not text.strip():
                raise Malformed(f'the {which} input is empty')
        return value
    if isinstance(value, list) and value and isinstance(value[0], (int, float, list)):
        return frames_of(value)
    if isinstance(value, (list, tuple)):
        if not all(isinstance(word, str) and word.strip() for word in value):
            raise Malformed('a word of the input is empty or no text')
        value = tuple(value)
    elif not isinstance(value, str):
        raise Malformed(f'the input is {type_name(value)} and a text or a list of words is needed')
    if not value or isinstance(value, str) and not value.strip():
        raise Malformed('the input is empty')
    return value


def _label(value):
    """The name of a class; numbers and truths of JSON have the names they are written with."""
    value = value.one() if isinstance(value, PerStep) else value
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        raise Malformed(f'the label is {type_name(value)} and a text or a whole number is needed')
    label = str(value).strip()
    if not label:
        raise Malformed('the label is empty')
    return label


def _number(value):
    value = value.one() if isinstance(value, PerStep) else value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise Malformed(f'the target is {type_name(value)} and a number is needed')
    shown = repr(value) if isinstance(value, str) else str(value)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= LARGEST or '_' in shown:  # Python reads '1_000' as a thousand
        raise Malformed('the target is no finite number', shown if len(shown) < 50 else f'{shown[:50]}...')
    return number


def _captions(value):
    """The captions of an image: a text, or a list of texts."""
    if not isinstance(value, (str, list, tuple)):
        raise Malformed(f'the caption is {type_name(value)} and a text or a list of texts is needed')
    captions = (value,) if isinstance(value, str) else tuple(value)
    for caption in captions:
        if not isinstance(caption, str):
            raise Malformed(f'a caption is {type_name(caption)} and a text is needed')
        if not caption.strip():
            raise Malformed('the caption is empty')
    if not captions:
        raise Malformed('has no caption')
    return captions


def _classified(record):
    return Example(_sequence(record.inputs), _label(record.target))


def _measured(record):
    return Example(_sequence(record.inputs), _number(record.target))


def _tagged(record):
    inputs, target = _sequence(record.inputs), record.target
    target = list(target.targets) if isinstance(target, PerStep) else target
    if not isinstance(target, (str, list, tuple)):
        raise Malformed(f'the target is {type_name(target)} and a list or a text, with a label for every step, is needed')
    if isinstance(target, list):  # null: a step that does not count
        target = [label if label is None else _label(label) for label in target]
    if len(inputs) != len(target):
        raise Malformed('labels and steps are not as many', f'{plural(len(target), "label")}, {plural(len(inputs), "step")}')
    return Example(inputs, tuple(target))


def _translated(record):
    for side, text in (('input', record.inputs), ('target', record.target)):
        if not isinstance(text, str):
            raise Malformed(f'the {side} is {type_name(text)} and a text is needed')
        if not text.strip():
            raise Malformed(f'the {side} is empty')
    return Example(record.inputs, record.target)


EXAMPLES = {'class': _classified, 'number': _measured, 'labels': _tagged, 'pairs': _translated,
            'series': lambda record: Example(_sequence(record.inputs), 0.0)}  # by `Task.takes`
TARGETS = {'class': _label, 'number': _number, 'captions': _captions}  # of images, by `Task.takes`
