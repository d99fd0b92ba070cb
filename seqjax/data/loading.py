"""From `config.data` to a set of batches: one interface for text, labelled sequences, translations and generated rows."""

import functools
import os
from typing import Any

from seqjax.data.cache import manifest
from seqjax.data.captions import load_captions
from seqjax.data.corpus import load_corpus
from seqjax.data.dataset import Dataset
from seqjax.data.encoded import encoded_once
from seqjax.data.labelled import load_labelled, open_labelled
from seqjax.data.options import DataOptions
from seqjax.data.pairs import load_pairs, open_pairs
from seqjax.data.pretraining import load_pretraining
from seqjax.data.readers.files import files_of, read_examples
from seqjax.data.readers.splits import hold_out
from seqjax.data.readers.tfds import tfds_examples, tfds_files
from seqjax.data.series import load_series
from seqjax.data.sources import OF_TEXT, SOURCES, names_for
from seqjax.data.text.codec import Codec
from seqjax.errors import FieldError, with_prefix
from seqjax.fields import whole
from seqjax.tasks import TASKS, taking


_MAKERS = dict(pairs=(load_pairs, open_pairs), captions=(load_captions, None), series=(load_series, None))  # by kind of data: from examples, and from rows that are encoded


def load(options: Any, task: str, saved: Codec | None = None) -> Dataset:
    """The `Dataset` that `config.data` names, for a task.

    Args:
        options: `config.data`.
        task: the name of a task.
        saved: the codec that a run wrote when it began, or that of the run that it starts from (see `data.inherited`).
    """
    check_task(options.source, task)
    options = whole(DataOptions, options)
    kind, made = TASKS[task].data, SOURCES.get(options.source)
    if made and made.endless:
        return made(task, options)
    if kind == 'text':
        return load_corpus(options, saved)
    if kind in OF_TEXT:
        return load_pretraining(options, task, saved)
    make, reopen = _MAKERS.get(kind) or (functools.partial(load_labelled, task=task), open_labelled)
    if reopen and (files := _manifest(options, task)):
        load_rows = lambda codec, keep: make(load_examples(options, task), options=options, saved=codec, keep=keep)
        about = [task, kind, TASKS[task].target, TASKS[task].per_step]
        return encoded_once(files, options, about, saved, load_rows, reopen)
    examples = load_examples(options, task)
    return examples if isinstance(examples, Dataset) else make(examples, options=options, saved=saved)


def _manifest(options, task):
    """What tells that files of labelled sequences or of pairs are still the same; None of embedded sets and of images."""
    kind, _, name = options.source.partition(':')
    find = dict(file=lambda: files_of(name, task, options), tfds=lambda: tfds_files(name, options.directory))
    if not name or options.source in SOURCES or kind not in find or not (paths := find[kind]()):
        return None
    return manifest([*paths, *([os.path.expanduser(options.word_vectors)] if options.word_vectors else [])])


def load_examples(options, task):
    """The labelled sequences or the pairs that `config.data` names, before anything is a number."""
    options = whole(DataOptions, options)
    kind, _, name = options.source.partition(':')
    if options.source in SOURCES:
        return SOURCES[options.source](task, options)
    if kind == 'file' and name:
        return read_examples(name, task, options)
    if kind == 'tfds' and name:
        held_out = functools.partial(hold_out, task=task, part=options.held_out, seed=options.split_seed)
        return tfds_examples(name, options.directory, task, held_out, (options.input_column, options.target_column),
                             options.image_size)
    raise FieldError('data.source', options.source, f"write 'file:PATH' or 'tfds:NAME', or name an embedded set: "
                     f'{names_for(TASKS[task])}')


def default_task(source):
    """The name of the task that a source is for, where the config names none."""
    if ':' not in source:
        with_prefix('data', lambda: SOURCES[source])
    target = SOURCES[source].targets[0] if source in SOURCES else OF_TEXT[0]
    for name in taking(target):
        return name
    raise FieldError('data.source', source, f'has {target}, which none of these tasks learns from: {", ".join(TASKS)}')


def check_task(source, task):
    """Refuses a task that a source has no answers for."""
    if source in SOURCES and not SOURCES[source].teaches(TASKS[task]):
        able = ', '.join(name for kind in SOURCES[source].targets for name in taking(kind) if SOURCES[source].teaches(TASKS[name]))
        raise FieldError('task', task, f'the set {source!r} is for: {able}; embedded sets for {task}: {names_for(TASKS[task])}')
