"""JSON lines: an object a line. Sequences are texts or lists of words; a target for every step is a list or a text."""

import json

from seqjax.data.readers.columns import CUSTOMARY, Record, customary, named, two
from seqjax.data.readers.examples import TextPair
from seqjax.data.readers.lines import Malformed, sound
from seqjax.data.readers.targets import type_name
from seqjax.errors import suggestion


def read_jsonl(file, options):
    """(number, Record or Malformed) of every line."""
    kind = None  # of the inputs, the same in the whole file
    for number, text in file.lines():
        if file.is_blank(text):
            continue
        try:
            record = _record(_object(sound(text)), options)
            found = type_name(record.inputs)
            kind = kind or found
            if found != kind:
                raise Malformed(f'the input is {found} and that of earlier lines is {kind}')
            yield number, record
        except Malformed as problem:
            yield number, problem


def _object(text):
    try:
        value = json.loads(text, object_pairs_hook=_unique)
        if '\\u' in text:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair, as "\\ud83d" alone, is no text
    except json.JSONDecodeError as error:
        raise Malformed('is no JSON', f'{error.msg}, character {error.colno}') from None
    except UnicodeEncodeError:
        raise Malformed('has half a surrogate pair') from None
    except RecursionError:
        raise Malformed('is nested too deeply') from None
    except ValueError:
        raise Malformed('has a number of thousands of digits') from None
    if not isinstance(value, dict):
        raise Malformed(f'is {type_name(value)} and an object is needed')
    return value


def _unique(pairs):
    made = dict(pairs)
    if len(made) < len(pairs):
        raise Malformed('has a key twice')
    return made


def _record(value, options):
    split = options.split_column or customary(value, 'split')
    inputs = named(options.input_column, value)
    if len(inputs) > 1:
        inputs = TextPair(*(_get(value, key, 'input') for key in two(options.input_column, inputs)))
    else:
        inputs = _get(value, options.input_column, 'input')
    return Record(inputs, _get(value, options.target_column, 'target'),
                  None if split is None else _get(value, split, 'split'), value.get('validation'))


def _get(value, wanted, use):
    key = wanted or customary(value, use)
    if key is None:
        raise Malformed(f'has none of the keys {", ".join(CUSTOMARY[use])}', f'write config.data.{use}_column')
    if key not in value and '.' in key:  # a key of an object within
        outer, _, key = key.partition('.')
        if not isinstance(value.get(outer), dict):
            raise Malformed(f'has no object {outer!r}')
        return _get(value[outer], key, use)
    if key not in value:
        raise Malformed(f'has no key {key!r}', suggestion(key, value))
    return value[key]
