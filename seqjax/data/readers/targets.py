"""What a record says, as an example of a task: a class, a number, a label for every step, or a translation."""

import math

import numpy as np

from seqjax.data.readers.examples import Example, TextPair
from seqjax.data.readers.lines import Malformed, plural

_NAMES = {str: 'a text', list: 'a list', dict: 'an object', bool: 'true or false', int: 'a number', float: 'a number',
          type(None): 'null', TextPair: 'two texts'}
LARGEST = float(np.finfo(np.float32).max)  # targets are float32 by the time they are learned from


def type_name(value):
    """What a value of JSON is, for a reader."""
    return _NAMES[type(value)]


def _sequence(value):
    """A text, words or two texts."""
    if isinstance(value, TextPair):
        for which, text in (('first', value.first), ('second', value.second)):
            if not isinstance(text, str):
                raise Malformed(f'the {which} input is {type_name(text)} and a text is needed')
            if not text.strip():
                raise Malformed(f'the {which} input is empty')
        return value
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
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int)):
        raise Malformed(f'the label is {type_name(value)} and a text or a whole number is needed')
    label = str(value).strip()
    if not label:
        raise Malformed('the label is empty')
    return label


def _classified(record):
    return Example(_sequence(record.inputs), _label(record.target))


def _measured(record):
    if isinstance(record.target, bool) or not isinstance(record.target, (str, int, float)):
        raise Malformed(f'the target is {type_name(record.target)} and a number is needed')
    shown = repr(record.target) if isinstance(record.target, str) else str(record.target)
    try:
        number = float(record.target)
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= LARGEST or '_' in shown:  # Python reads '1_000' as a thousand
        raise Malformed('the target is no finite number', shown if len(shown) < 50 else f'{shown[:50]}...')
    return Example(_sequence(record.inputs), number)


def _tagged(record):
    inputs, target = _sequence(record.inputs), record.target
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


EXAMPLES = {'class': _classified, 'number': _measured, 'labels': _tagged, 'pairs': _translated}  # by `Task.takes`
