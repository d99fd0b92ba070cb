"""Labelled sequences and translations from files: every record is read, or its line and what is wrong with it are named.

    tsv, csv, jsonl    a record a line; an input column or two of them, a target column, perhaps a split column
    conll, conllu      a word a line: tagging
    steps, series      tables of numbers: a row a time step, or a row a sequence
    fasta              'KEY=value' in the headers, or a second file with a label for every step
    folder             a file for every class, a sequence a line: classification
    images, idx, npz, listed, tar    images: classification, regression and captions, see `images.sets`
    parallel           two files, line by line a text and its translation: see `read_parallel`

Each is also read compressed, as .gz.
"""

import collections
import dataclasses
import itertools
import os
import re
import types

import numpy as np

from seqjax.data.images import sets
from seqjax.data.images.class_folders import class_folders
from seqjax.data.images.decoding import SUFFIXES
from seqjax.data.images.idx import idx_files
from seqjax.data.images.listed import LISTS
from seqjax.data.images.tar_shards import shards
from seqjax.data.readers.conll import read_conll, read_conllu
from seqjax.data.readers.examples import SPLITS, Example, Examples
from seqjax.data.readers.fasta import companions, read_fasta
from seqjax.data.readers.folder import read_folder
from seqjax.data.readers.json_lines import read_jsonl
from seqjax.data.readers.lines import File, Malformed, check_encoding, plural, sound
from seqjax.data.readers.numbers import read_series, read_steps
from seqjax.data.readers.parallel_text import ParallelFiles, parallel_paths
from seqjax.data.readers.splits import hold_out
from seqjax.data.readers.tables import read_csv, read_tsv
from seqjax.data.readers.targets import EXAMPLES
from seqjax.errors import FieldError, UserError, suggestion
from seqjax.tasks import TASKS, taking


@dataclasses.dataclass(frozen=True)
class Format:
    """read(file, options) -> (number, Record or Malformed) of every record; kinds: of targets
    that it can have, see `Task.takes`; fields: of the config that have a meaning."""

    read: callable
    suffixes: tuple[str, ...]
    kinds: tuple[str, ...]
    fields: tuple[str, ...]


_COLUMNS = 'input_column', 'target_column', 'split_column'
_LABELS = 'class', 'number', 'labels'
_ALL = (*_LABELS, 'pairs')
_OF_IMAGES = 'class', 'number', 'captions'
FORMATS = {
    'text': Format(None, ('.txt',), (), ()),
    'tsv': Format(read_tsv, ('.tsv', '.tab'), _ALL, _COLUMNS),
    'csv': Format(read_csv, ('.csv',), _ALL, _COLUMNS),
    'jsonl': Format(read_jsonl, ('.jsonl',), _ALL, _COLUMNS),
    'conll': Format(read_conll, ('.conll',), ('labels',), ('input_column', 'target_column')),
    'conllu': Format(read_conllu, ('.conllu',), ('labels',), ('input_column', 'target_column')),
    'steps': Format(read_steps, (), (*_LABELS, 'series'), (*_COLUMNS, 'sequence_column')),
    'series': Format(read_series, (), ('class', 'number'), ('target_column', 'split_column')),
    'fasta': Format(read_fasta, ('.fasta', '.fa'), _LABELS, ('target_column', 'split_column', 'label_file', 'mask_file')),
    'folder': Format(None, (), ('class',), ()),
    'images': Format(None, (), ('class',), ('image_size', 'cache_images')),
    'idx': Format(None, (), ('class', 'number'), ('image_size',)),
    'npz': Format(None, ('.npz',), (*_OF_IMAGES, 'labels', 'series'), ('image_size', 'input_column', 'target_column', 'label_file')),
    'listed': Format(None, (), _OF_IMAGES, ('image_size', 'cache_images', *_COLUMNS)),
    'tar': Format(None, ('.tar',), _OF_IMAGES, ('image_size', 'cache_images', 'target_column')),
    'parallel': Format(None, (), ('pairs',), ()),
}
_DIRECTORIES = 'folder', 'images', 'idx', 'tar'
_FIELDS = (*_COLUMNS, 'sequence_column', 'label_file', 'mask_file', 'image_size', 'cache_images')


@dataclasses.dataclass(frozen=True)
class Row:
    """An example, and where it stands."""

    example: Example
    part: str
    file: File | ParallelFiles
    number: int


def read_examples(path_pattern, task, options):
    """The examples of a file, of a folder, or of two or three of them as in 'DIR/{train,dev,test}.tsv'; of parallel files.

    Where none of them are for validation, `options.held_out` of the training examples are held out. options: `config.data`.
    """
    if options.on_error not in ('stop', 'skip'):
        raise FieldError('data.on_error', options.on_error, "must be 'stop' or 'skip'")
    check_encoding(options.encoding)
    if parallel := _is_parallel(path_pattern, task, options):
        if options.format not in ('', 'text', 'parallel'):
            raise FieldError('data.format', options.format, f'{path_pattern} has languages in braces, which is for parallel '
                             'files; leave it empty')
        _check_fields(path_pattern, 'parallel', options)
    paths = parallel_paths(path_pattern) if parallel else expand(path_pattern)
    if len(paths) > 1 and options.split_column:
        raise FieldError('data.split_column', options.split_column, 'the files are the parts already; leave it empty')
    formats = ['parallel' if parallel else _format(path, task, options) for path in paths]
    if formats[0] in sets.FORMATS:
        if len({*formats}) > 1:
            raise FieldError('data.source', f'file:{path_pattern}', f'has parts of several formats: {", ".join(formats)}')
        return sets.read_images(paths, formats[0], task, options)
    beside = companions(options)
    rows, files, notes = [], [], []
    for path, name, part in zip(paths, formats, SPLITS):
        sources, others = (read_folder(path, options) if name == 'folder' else
                           ([_file(path, name, task, options, beside)], ''))
        notes += [others] if others else []
        for file, records in sources:
            found = list(_rows(file, records, task, part if len(paths) > 1 else None))
            file.check_records(len(found))
            notes += _header_perhaps(file, found) if name in ('tsv', 'csv') and TASKS[task].target == 'class' else []
            rows += found
            files.append(file)
    if len({type(row.example.inputs) for row in rows}) > 1:
        raise FieldError('data.source', f'file:{path_pattern}', 'has texts in one file and lists of words in another')
    rows = _known_labels(path_pattern, rows, task)
    parts = {part: [row.example for row in rows if row.part == part] for part in SPLITS}
    if not parts['validation'] and TASKS[task].data != 'series':
        notes.append(_hold_out(path_pattern, parts, task, options))
    counts = collections.Counter(row.file for row in rows)
    summaries = [file.summary(counts[file]) for file in files] + [companion.summary() for companion in beside]
    return Examples(**parts, report='; '.join(summaries + notes), normalise=isinstance(rows[0].example.inputs, np.ndarray))


def files_of(path_pattern, task, options):
    """The paths of all files that `read_examples` reads at the start; none of images, which it does not.

    None also where something is wrong with them, which `read_examples` will say.
    """
    try:
        parallel = _is_parallel(path_pattern, task, options)
        paths = itertools.chain(*parallel_paths(path_pattern)) if parallel else expand(path_pattern)
        found = []
        for path in map(os.path.expanduser, (*paths, options.label_file, options.mask_file)):
            if os.path.isdir(path):
                if options.format in sets.FORMATS or _of_directory(path) in sets.FORMATS:
                    return []
                found += [os.path.join(path, name) for name in sorted(os.listdir(path))]
            elif path and _named(path, options, task) in sets.FORMATS:
                return []
            found += [path] if path else []
    except (UserError, OSError):
        return []
    return found


def read_sentences(path, options):
    """An iterator over the sentences of a CoNLL file as lines of words; None: the name is not that of such a file.

    options: `config.data`, whose input_column is taken where its source has the same format.
    """
    name = next((name for name in ('conll', 'conllu') if _suffix(path) in FORMATS[name].suffixes), None)
    if not name:
        return None
    column = options.input_column if _named(options.source, options) == name else ''
    file = File(path, options.on_error, field='--input')

    def lines():
        for number, record in FORMATS[name].read(file, types.SimpleNamespace(input_column=column)):
            try:
                yield ' '.join(sound(record).inputs)
            except Malformed as problem:
                file.refuse(number, problem)

    return lines()


def _hold_out(pattern, parts, task, options):
    """Moves training examples to the validation part; returns what is to be said of it."""
    try:
        train, validation = hold_out(parts['train'], task, part=options.held_out, seed=options.split_seed)
    except UserError as error:
        raise FieldError('data.source', f'file:{pattern}', str(error)) from None
    note = f'{len(validation):,} of {plural(len(parts["train"]), "training record")} held out'
    parts.update(train=train, validation=validation)
    return note


def _header_perhaps(file, rows):
    """A header with names that are not customary is read as a record: its label is then of one line alone."""
    label = rows[0].example.target
    if file.left_out['header'] or len(rows) < 3 or any(row.example.target == label for row in rows[1:]):
        return []
    return [f'{file.name}: only line {rows[0].number} has the label {label!r}; if it is a header, name '
            'config.data.input_column and config.data.target_column']


def expand(pattern):
    """['a/train.tsv', 'a/dev.tsv'] of 'a/{train,dev}.tsv'."""
    refuse = lambda reason: FieldError('data.source', f'file:{pattern}', reason)
    found = re.fullmatch(r'([^{}]*)\{([^{}]*)\}([^{}]*)', pattern)
    if not found:
        if '{' in pattern or '}' in pattern:
            raise refuse('has braces that do not match, or more than one pair; write one, as in DIR/{train,dev,test}.tsv')
        return [pattern]
    begin, alternatives, end = found.groups()
    alternatives = alternatives.split(',')
    if len(alternatives) not in (2, 3):
        raise refuse(f'has {plural(len(alternatives), "alternative")} in braces; write two (train, validation) or three '
                     '(train, validation, test)')
    return [begin + alternative + end for alternative in alternatives]


def _is_parallel(pattern, task, options):
    """Whether braces name two languages; those of a table, which has both in one file, name its parts."""
    return TASKS[task].takes() == 'pairs' and (options.format == 'parallel' or pattern.count('{') > 1 or
                                      '{' in pattern and _named(pattern, options) in ('', 'text'))


def _named(path, options, task=''):
    """The format that the config or the suffix of a path names, or ''.

    A table of captions names images, and one of series has a row a time step.
    """
    name = options.format or next((name for name, format in FORMATS.items() if _suffix(path) in format.suffixes), '')
    kind = TASKS[task].takes() if task else ''
    if kind == 'captions' and name in LISTS:
        return 'listed'
    return 'steps' if kind == 'series' and name in ('csv', 'tsv') else name


def _suffix(path):
    return os.path.splitext(path.removesuffix('.gz'))[1]


def _format(path, task, options):
    """The name of a format that fits the file, the task and the options."""
    refuse = lambda reason: FieldError('data.source', f'file:{path}', reason)
    if not os.path.exists(os.path.expanduser(path)):
        raise File(path, options.on_error).missing()
    directory = os.path.isdir(os.path.expanduser(path))
    carrying = ', '.join(name for name, format in FORMATS.items() if TASKS[task].takes() in format.kinds)
    name = options.format or (_of_directory(path) if directory else _named(path, options, task))
    if options.format and options.format not in FORMATS:
        raise FieldError('data.format', options.format, suggestion(options.format, FORMATS))
    if not name:
        raise refuse(f'the suffix {_suffix(path)!r} belongs to no format; set config.data.format to one of: {carrying}')
    if directory and name not in _DIRECTORIES:
        raise refuse('is a directory, and a file is needed')
    if not directory and name in _DIRECTORIES and name != 'tar':
        raise refuse(f'is no directory, and the format {name} needs one')
    if name == 'idx' and not idx_files(path):
        raise refuse('has no idx files, train-images-idx3-ubyte and so on')
    if name == 'images' and not class_folders(path):
        raise refuse(f'has no folder with images ({", ".join(SUFFIXES)}); make one for every class')
    if TASKS[task].takes() not in FORMATS[name].kinds:
        nouns = dict(pairs='translations', captions='captions', series='series of numbers')
        answers = nouns.get(TASKS[task].takes(), f'labels for {task}')
        raise refuse(f'the format {name} has no {answers}; those that have are: {carrying}'
                     + ('' if options.format or directory else '; name that of the file in config.data.format'))
    _check_fields(path, name, options)
    if ',' in options.input_column and name != 'steps' and TASKS[task].target not in ('class', 'number'):
        raise FieldError('data.input_column', options.input_column, 'two texts a row are for classification and regression, '
                         f'and the task is {task}; write one column')
    if name == 'fasta':
        _check_companions(path, task, options)
    return name


def _of_directory(path):
    """The format of a directory, by what is in it."""
    return 'idx' if idx_files(path) else 'tar' if shards(path) else 'images' if class_folders(path) else 'folder'


def _check_fields(path, name, options):
    for field in _FIELDS:
        if getattr(options, field) and field not in FORMATS[name].fields:
            raise FieldError(f'data.{field}', getattr(options, field), f'means nothing for the format {name} of {path}; '
                             'leave it empty')


def _check_companions(path, task, options):
    if options.mask_file and not options.label_file:
        raise FieldError('data.mask_file', options.mask_file, 'says which labels count, and there is no data.label_file')
    if TASKS[task].per_step and not options.label_file:
        raise FieldError('data.label_file', '', f'tagging {path} needs a second FASTA file, with a label for every step')
    for field in ('label_file', 'mask_file'):
        if getattr(options, field) and not TASKS[task].per_step:
            raise FieldError(f'data.{field}', getattr(options, field),
                             f'is for labels of steps, and the task is {task}; leave it empty, or set config.task='
                             f'{taking("labels")[0]}')
    if options.target_column and options.label_file:
        raise FieldError('data.target_column', options.target_column, 'the labels are in data.label_file; leave it empty')


def _file(path, name, task, options, beside):
    """(File, its records)."""
    if name == 'parallel':
        files = ParallelFiles(path, options.on_error, options.encoding)
        return files, files.records()
    file = File(path, options.on_error, encoding=options.encoding)
    if name == 'steps':
        return file, read_steps(file, options, labelled=TASKS[task].takes() != 'series')
    return file, read_fasta(file, options, beside) if name == 'fasta' else FORMATS[name].read(file, options)


def _rows(file, records, task, part):
    """Every record as an example, in the part that the file is, or in the one that the record names."""
    features = None  # of a time step, where inputs are numbers
    for number, record in records:
        try:
            example = EXAMPLES[TASKS[task].takes()](sound(record))
            if isinstance(example.inputs, np.ndarray):
                features = features or example.inputs.shape[1]
                if example.inputs.shape[1] != features:
                    raise Malformed('has another number of features than the first sequence',
                                    f'{example.inputs.shape[1]} and {features}')
            yield Row(example, part or record.part(), file, number)
        except Malformed as problem:
            file.refuse(number, problem)


def _known_labels(pattern, rows, task):
    """The rows without those that have a label which training never shows: they are malformed."""
    given = {row.part for row in rows}
    if 'train' not in given:
        raise FieldError('data.source', f'file:{pattern}', f'has no training record, only: {", ".join(sorted(given))}')
    if TASKS[task].takes() in ('number', 'pairs', 'series'):
        return rows
    labels_of = lambda row: set(row.example.target if TASKS[task].per_step else (row.example.target,)) - {None}
    known = set().union(*(labels_of(row) for row in rows if row.part == 'train'))
    kept = []
    for row in rows:
        if unknown := sorted(labels_of(row) - known):
            row.file.refuse(row.number, Malformed('the label is not in the training part', repr(unknown[0])))
        else:
            kept.append(row)
    if lost := given - {row.part for row in kept}:
        raise FieldError('data.source', f'file:{pattern}',
                         f'the {" and the ".join(sorted(lost))} part has only labels that are not in the training part')
    return kept
