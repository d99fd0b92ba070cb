"""A text as tokens, with what it takes to know the same text again."""

import dataclasses
import hashlib
from typing import Any

import numpy as np

from seqjax.data import tokenizers
from seqjax.data.sources import load_text


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Token numbers of the training and the held-out part, the tokenizer, where the text is from and its hash."""

    train: np.ndarray
    validation: np.ndarray
    tokenizer: Any
    source: str
    sha256: str

    def facts(self):
        """What a run writes down to know the text again."""
        return dict(source=self.source, sha256=self.sha256, train_tokens=len(self.train),
                    validation_tokens=len(self.validation), vocabulary=self.tokenizer.vocabulary)


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
    return Corpus(tokenizer.encode(text.train), tokenizer.encode(text.validation), tokenizer, options.source, digest)
