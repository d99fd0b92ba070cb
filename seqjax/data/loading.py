"""From `config.data` to a set of batches: one interface for text, labelled sequences, translations and generated rows."""

import functools

from seqjax.data.corpus import load_corpus
from seqjax.data.embedded.addition import addition_examples
from seqjax.data.embedded.language_names import language_name_examples
from seqjax.data.embedded.moving_digits import moving_digit_examples
from seqjax.data.embedded.peptides import peptide_examples
from seqjax.data.embedded.python_docs import python_doc_examples
from seqjax.data.embedded.python_tokens import python_token_examples
from seqjax.data.embedded.reversal import reversal_examples
from seqjax.data.embedded.reviews import review_examples
from seqjax.data.embedded.synthetic import GENERATORS, Synthetic
from seqjax.data.labelled import load_labelled
from seqjax.data.pairs import load_pairs
from seqjax.data.pretraining import load_pretraining
from seqjax.data.readers.files import read_examples
from seqjax.data.readers.splits import hold_out
from seqjax.data.readers.tfds import tfds_examples
from seqjax.errors import FieldError
from seqjax.tasks import TASKS, taking

# Sets of examples that need no file: who makes them, and the targets they have (see `Task.takes`), the usual one first.
EMBEDDED = {
    'python_tokens': (python_token_examples, ('labels',)),
    'cldr': (language_name_examples, ('class', 'pairs')),
    'peptides': (peptide_examples, ('number', 'labels')),
    'reviews': (review_examples, ('class',)),
    'python_docs': (python_doc_examples, ('class',)),
    'moving_digits': (moving_digit_examples, ('class', 'labels')),
    'reverse': (reversal_examples, ('pairs',)),
    'addition': (addition_examples, ('pairs',)),
}
OWN_PARTS = ('python_docs', 'reverse', 'addition')  # have parts of their own sizes
HELD_OUT = 0.1  # the default of `config.data.held_out`
OF_TEXT = ('text', 'masked', 'spans')  # kinds of data whose targets are in the text itself


def load(options, task, saved=None):
    """The set that `config.data` names, for a task: a Corpus, a Pretraining, a Labelled, a Pairs or a Synthetic.

    saved: the codec that a run wrote when it began, or that of the run that it starts from (see `data.inherited`).

        training_batches(batch_size, seed, process, processes)              element `step` is a function of (seed, step)
        evaluation_batches(batch_size, split, limit, process, processes)    the held-out rows, each counted once
        sample()                        a batch of one row, to make parameters from
        steps                           of a row, or their mean
        splits                          'train', 'validation' and, where there is one, 'test'
        shapes                          how many programs training and evaluation compile
        for_model(), for_task()         what the data decides about them: the size of the vocabulary, the names of classes
        codec                           how text becomes numbers and back; None where the inputs are numbers
        files()                         {name: text} of what a run must keep
        facts(), str()                  what it is, for data.json and for a reader
    """
    check_task(options.source, task)
    _check_fields(options, task)
    if options.source in GENERATORS:
        return Synthetic(options.source, options.sequence_length, options.held_out_rows)
    kind = TASKS[task].data
    if kind == 'text':
        return load_corpus(options, saved)
    if kind in OF_TEXT:
        return load_pretraining(options, task, saved)
    examples = load_examples(options, task)
    if kind == 'pairs':
        return load_pairs(examples, options, saved)
    return load_labelled(examples, task, options, saved)


def load_examples(options, task):
    """The labelled sequences or the pairs that `config.data` names, before anything is a number."""
    kind, _, name = options.source.partition(':')
    if options.source in EMBEDDED:
        length = dict(length=options.sequence_length) if options.source == 'reverse' else {}  # the others have their own
        return EMBEDDED[options.source][0](task, held_out=options.held_out, seed=options.split_seed, **length)
    if kind == 'file' and name:
        return read_examples(name, task, options)
    if kind == 'tfds' and name:
        held_out = functools.partial(hold_out, task=task, part=options.held_out, seed=options.split_seed)
        return tfds_examples(name, options.directory, task, held_out, (options.input_column, options.target_column))
    raise FieldError('data.source', options.source, f"write 'file:PATH' or 'tfds:NAME', or name an embedded set: "
                     f'{_embedded(task)}')


def default_task(source):
    """The name of the task that a source is for, where the config names none."""
    return taking(_kinds(source)[0] if _kinds(source) else OF_TEXT[0])[0]


def check_task(source, task):
    """Refuses a task that a source has no answers for."""
    kinds = _kinds(source)
    if kinds and TASKS[task].takes() not in kinds:
        able = ', '.join(name for kind in kinds for name in taking(kind))
        raise FieldError('task', task, f'the set {source!r} is for: {able}; embedded sets for {task}: {_embedded(task)}')


def _kinds(source):
    """What an embedded or generated set has to be learned, see `Task.takes`; () for other sources."""
    if source in EMBEDDED:
        return EMBEDDED[source][1]
    if source in GENERATORS:
        return (GENERATORS[source].kind,)
    return OF_TEXT if source == 'python' else ()


def _check_fields(options, task):
    """Options of files must be empty where no file is read that they could describe; `readers` looks at the others."""
    source, kind = options.source, options.source.partition(':')[0]
    if kind == 'file' and TASKS[task].data not in OF_TEXT:
        return
    able = {'tfds': ('input_column',) if TASKS[task].data in OF_TEXT else ('input_column', 'target_column')}.get(kind, ())
    for field in ('format', 'input_column', 'target_column', 'split_column', 'label_file', 'mask_file'):
        value = getattr(options, field)
        if value and field not in able and (kind, field, value) != ('file', 'format', 'text'):
            raise FieldError(f'data.{field}', value, f'means nothing for {source!r} and {task}; leave it empty'
                             + (', or name another task' if kind == 'file' else ''))
    if options.held_out != HELD_OUT and source in (*OWN_PARTS, *GENERATORS):
        raise FieldError('data.held_out', options.held_out, f'means nothing for {source!r}, whose parts have sizes of their own; '
                         f'leave it at {HELD_OUT}')


def _embedded(task):
    return ', '.join(name for name in ('python', *EMBEDDED, *GENERATORS) if TASKS[task].takes() in _kinds(name))
