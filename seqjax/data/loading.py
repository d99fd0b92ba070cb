"""From `config.data` to a set of batches: one interface for text and for generated rows."""

from seqjax.data.corpus import load_corpus
from seqjax.data.synthetic import GENERATORS, Synthetic


def load(options, tokenizer=None):
    """The set that `config.data` names: a Corpus or a Synthetic. A saved tokenizer is used where one is given.

        training_batches(batch_size, seed, process, processes)       element `step` is a function of (seed, step)
        evaluation_batches(batch_size, limit, process, processes)    the held-out rows, each counted once
        sample()                                                     a batch of one row, to make parameters from
        vocabulary, tokenizer                                        None where the inputs are numbers, or no text
        steps                                                        of a row
        facts(), str()                                               what it is, for data.json and for a reader
    """
    if options.source in GENERATORS:
        return Synthetic(options.source, options.sequence_length, options.held_out_rows)
    return load_corpus(options, tokenizer)


def default_task(source):
    """The name of the task that a source is for, where the config names none."""
    return GENERATORS[source].task if source in GENERATORS else 'language_model'
