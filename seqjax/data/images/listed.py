"""Image files that a table or a file of JSON lines names, with a label, a number or captions beside every path:

    {"image": "images/0001.jpg", "caption": ["a dog on a sofa", "a sleeping dog"]}
    file_name,label,split

Paths are relative to the file that names them. It is the format of Hugging Face's image folders, metadata.csv and metadata.jsonl.
"""

import csv
import json
import os
import types

from seqjax.data.images.lazy import found_at
from seqjax.data.readers.columns import customary
from seqjax.data.readers.json_lines import read_jsonl
from seqjax.data.readers.lines import File, Malformed, sound
from seqjax.data.readers.tables import read_csv, read_tsv
from seqjax.data.readers.targets import TARGETS
from seqjax.errors import FieldError

LISTS = {'jsonl': read_jsonl, 'csv': read_csv, 'tsv': read_tsv}
_ENDINGS = {'.jsonl': 'jsonl', '.csv': 'csv', '.tsv': 'tsv', '.tab': 'tsv'}
IMAGE = 'image', 'file_name', 'filename', 'file', 'path', 'image_path', 'filepath'
_CAPTIONS, _LABELS = ('caption', 'captions', 'text', 'sentence'), ('label', 'class', 'target', 'category')


def customary_targets(kind):
    """Names of columns that have targets of a kind (`Task.takes`), the usual one first."""
    return (*_CAPTIONS, *_LABELS) if kind == 'captions' else (*_LABELS, *_CAPTIONS)


def listed_images(path, kind, options):
    """([(split, Found)], the `File` that was read). kind: of the targets, see `Task.takes`. options: `config.data`.

    Lines with captions of one image are one record: no image is in two parts.
    """
    file = File(path, options.on_error, encoding=options.encoding)
    folder, found, places = os.path.dirname(os.path.expanduser(path)), [], {}
    for number, record in _records(file, kind, options):
        try:
            record = sound(record)
            if not isinstance(record.inputs, str) or not record.inputs.strip():
                raise Malformed('names no image')
            part, target = record.part(), TARGETS[kind](record.target)
            place = os.path.normpath(os.path.join(folder, record.inputs.strip()))
            if kind == 'captions' and place in places:
                known, one = found[places[place]]
                if part != known:
                    raise Malformed('the image is in two parts', f'{known} and {part}')
                found[places[place]] = part, one._replace(target=one.target + target)
                continue
            places[place] = len(found)
            found.append((part, found_at(place, target)))
        except Malformed as problem:
            file.refuse(number, problem)
    file.check_records(len(found))
    return found, file


def read_column(path, kind, options):
    """[(line, what stands in the target column)] of a file beside an array; options: `config.data`."""
    file = File(path, 'stop', 'data.label_file', options.encoding)
    found = []
    for number, record in _records(file, kind, options, alone=True):
        try:
            found.append((number, sound(record).target))
        except Malformed as problem:
            file.refuse(number, problem)
    return found


def _records(file, kind, options, alone=False):
    """(number, Record or Malformed) of every line, by the columns that the config names, or customary ones.

    alone: there is no column of images.
    """
    ending = os.path.splitext(file.path.removesuffix('.gz'))[1]
    if ending not in _ENDINGS:
        raise FieldError(file.field, file.path, f'names images, and its ending is none of {", ".join(_ENDINGS)}')
    names = _names(file, ending)
    pick = lambda wanted, usual: wanted or next((name for use in usual for name in names if name.strip().lower() == use), '')
    target = pick(options.target_column, customary_targets(kind))
    columns = types.SimpleNamespace(input_column=target if alone else pick(options.input_column, IMAGE), target_column=target,
                                    split_column=options.split_column or (customary(names, 'split') or ''))
    return LISTS[_ENDINGS[ending]](file, columns)


def _names(file, ending):
    """The keys of the first object, or the cells of the first row."""
    first = next((text for _, text in file.lines() if not isinstance(text, Malformed) and text.strip()), '')
    if ending == '.jsonl':
        try:
            value = json.loads(first or '{}')
        except (ValueError, RecursionError):
            return ()
        return tuple(value) if isinstance(value, dict) else ()
    return tuple(next(csv.reader([first]), ())) if ending == '.csv' else tuple(first.split('\t'))
