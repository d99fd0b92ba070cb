"""From `config.data` to a set of batches: one interface for text, labelled sequences, translations and generated rows."""

import functools
from typing import Any

from seqjax.data.corpus import load_corpus
from seqjax.data.dataset import Dataset
from seqjax.data.labelled import load_labelled
from seqjax.data.options import DataOptions
from seqjax.data.pairs import load_pairs
from seqjax.data.pretraining import load_pretraining
from seqjax.data.readers.files import read_examples
from seqjax.data.readers.splits import hold_out
from seqjax.data.readers.tfds import tfds_examples
from seqjax.data.sources import OF_TEXT, SOURCES, names_of
from seqjax.data.text.codec import Codec
from seqjax.errors import FieldError, with_prefix
from seqjax.fields import whole
from seqjax.tasks import TASKS, taking


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
    examples = load_examples(options, task)
    if isinstance(examples, Dataset):
        return examples
    if kind == 'pairs':
        return load_pairs(examples, options, saved)
    return load_labelled(examples, task, options, saved)


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
        return tfds_examples(name, options.directory, task, held_out, (options.input_column, options.target_column))
    raise FieldError('data.source', options.source, f"write 'file:PATH' or 'tfds:NAME', or name an embedded set: "
                     f'{names_of(TASKS[task].takes())}')


def default_task(source):
    """The name of the task that a source is for, where the config names none."""
    if ':' not in source:
        with_prefix('data', lambda: SOURCES[source])
    return taking(SOURCES[source].targets[0] if source in SOURCES else OF_TEXT[0])[0]


def check_task(source, task):
    """Refuses a task that a source has no answers for."""
    if source in SOURCES and TASKS[task].takes() not in SOURCES[source].targets:
        able = ', '.join(name for kind in SOURCES[source].targets for name in taking(kind))
        raise FieldError('task', task, f'the set {source!r} is for: {able}; embedded sets for {task}: '
                         f'{names_of(TASKS[task].takes())}')
