"""A text as tokens: its batches, and what it takes to know the same text again."""

import dataclasses
import hashlib
from typing import Any

import numpy as np

from seqjax.data import tokenizers
from seqjax.data.sources import load_text
from seqjax.data.streams import evaluation_streams, training_streams
from seqjax.data.windows import evaluation_batches, training_batches


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Token numbers of the training and the held-out part, the tokenizer, where the text is from and its hash.

    steps: tokens of a row. carry: whether a row goes on where that of the batch before ended. Interface: see `data.load`.
    """

    train: np.ndarray
    validation: np.ndarray
    tokenizer: Any
    source: str
    sha256: str
    steps: int
    carry: bool = False

    @property
    def vocabulary(self):
        return self.tokenizer.vocabulary

    def training_batches(self, **options):
        make = training_streams if self.carry else training_batches
        return make(self.train, sequence_length=self.steps, **options)

    def evaluation_batches(self, **options):
        make = evaluation_streams if self.carry else evaluation_batches
        return make(self.validation, sequence_length=self.steps, **options)

    def sample(self):
        """A batch of one row."""
        inputs = np.zeros((1, self.steps), np.int32)
        return dict(inputs=inputs, targets=inputs, weights=np.ones(inputs.shape, np.float32))

    def facts(self):
        """What a run writes down to know the text again."""
        return dict(source=self.source, sha256=self.sha256, train_tokens=len(self.train),
                    validation_tokens=len(self.validation), vocabulary=self.vocabulary)

    def __str__(self):
        return f'{len(self.train):,} training and {len(self.validation):,} held-out tokens'


def load_corpus(options, tokenizer=None):
    """Reads the source that `config.data` names; makes its tokenizer, unless a saved one is given.

    Characters are taken from the whole text, so that the held-out part has none that are unknown; byte pairs are
    learned from the training part alone.
    """
    text = load_text(options.source, held_out=options.held_out, directory=options.directory)
    if tokenizer is None:
        whole = text.train + text.validation if options.tokenizer == 'char' else text.train
        tokenizer = tokenizers.train(options.tokenizer, whole, options.vocabulary)
    digest = hashlib.sha256(f'{len(text.train)} {text.train}{text.validation}'.encode()).hexdigest()
    return Corpus(tokenizer.encode(text.train), tokenizer.encode(text.validation), tokenizer, options.source, digest,
                  options.sequence_length, options.carry)
