"""A text as tokens: its batches, and what it takes to know the same text again."""

import dataclasses
import functools
from typing import Any

import numpy as np

from seqjax.data.batches.packing import Documents, Packed
from seqjax.data.batches.streams import evaluation_streams, training_streams
from seqjax.data.batches.windows import evaluation_batches, training_batches
from seqjax.data.dataset import Dataset
from seqjax.data.text import tokenizers
from seqjax.data.text.codec import TextCodec
from seqjax.data.text.inheritance import check_inherited
from seqjax.data.text.sources import open_text
from seqjax.data.text.tokenised import Part, learned, tokenised
from seqjax.errors import FieldError

MANY_UNKNOWN = 0.05  # of the tokens


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus(Dataset):
    """The tokens of every split, their codec, where the text is from and its hash. Tokens stay on disk.

    stateful: whether a row goes on where that of the batch before ended. documents: what ends a document; then rows hold several,
    see `data.packing`. Interface: `data.Dataset`.
    """

    parts: dict[str, Part]
    codec: TextCodec
    source: str
    sha256: str
    stateful: bool = False
    documents: str = ''

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.parts)

    @property
    def train(self) -> Any:
        return self.parts['train'].tokens

    @property
    def validation(self) -> Any:
        return self.parts['validation'].tokens

    @property
    def tokenizer(self) -> Any:
        return self.codec.tokenizer

    @property
    def steps(self) -> int:
        """Tokens of a row."""
        return self.codec.steps

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        part = dict(process=process, processes=processes)
        if self.documents:
            return self._packed(self._training_documents, batch_size, 'training').training(seed, **part)
        make = training_streams if self.stateful else training_batches
        return make(self.train, sequence_length=self.steps, batch_size=batch_size, seed=seed, **part)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        part = dict(limit=limit, process=process, processes=processes)
        if self.documents:
            documents = Documents(self.parts[split].tokens, self.parts[split].ends, self.steps)
            return self._packed(documents, batch_size, 'held-out').evaluation(**part)
        make = evaluation_streams if self.stateful else evaluation_batches
        return make(self.parts[split].tokens, sequence_length=self.steps, batch_size=batch_size, **part)

    def sample(self):
        """A batch of one row."""
        inputs = np.zeros((1, self.steps), np.int32)
        segments = dict(segments=np.ones_like(inputs)) if self.documents else {}
        return dict(inputs=inputs, targets=inputs, weights=np.ones(inputs.shape, np.float32), **segments)

    def facts(self):
        """What a run writes down to know the text again."""
        test = dict(test_tokens=len(self.parts['test'].tokens)) if 'test' in self.parts else {}
        unknown = {} if self.unknown_share is None else dict(unknown_share=round(self.unknown_share, 6))
        return dict(source=self.source, sha256=self.sha256, train_tokens=len(self.train),
                    validation_tokens=len(self.validation), **test, vocabulary=self.tokenizer.vocabulary, **unknown,
                    **self._document_facts)

    @property
    def unknown_share(self) -> float | None:
        """The part of all tokens that is unknown; None where nothing is, as with characters, bytes and pieces."""
        if not isinstance(self.tokenizer, tokenizers.SymbolTokenizer):
            return None
        return sum(part.unknown for part in self.parts.values()) / max(1, sum(len(part.tokens) for part in self.parts.values()))

    @property
    def report(self) -> str:
        """The share of unknown tokens, and what to do about a large one."""
        if self.unknown_share is None:
            return ''
        report = f'{self.source}: {self.unknown_share:.1%} of the tokens are unknown words'
        if self.unknown_share <= MANY_UNKNOWN:
            return report
        return report + (f': a vocabulary of {self.tokenizer.vocabulary:,} words is small for this text; raise '
                         'config.data.vocabulary')

    def __str__(self):
        test = f' and {len(self.parts["test"].tokens):,} test' if 'test' in self.parts else ''
        text = f'{len(self.train):,} training and {len(self.validation):,} held-out{test} tokens'
        if not self.documents:
            return text
        return text + (', {train_documents:,} + {validation_documents:,} documents, {cut_documents:,} of the first cut into '
                       'pieces, {real_positions:.2%} of their positions real').format(**self._document_facts)

    @functools.cached_property
    def _document_facts(self):
        if not self.documents:
            return {}
        packed = self._packed(self._training_documents, 1, 'training')
        return dict(train_documents=len(self.parts['train'].ends),
                    validation_documents=len(self.parts['validation'].ends),
                    cut_documents=self._training_documents.cut, real_positions=packed.efficiency())

    @functools.cached_property
    def _training_documents(self):
        return Documents(self.train, self.parts['train'].ends, self.steps)

    def _packed(self, documents, batch_size, which):
        if not len(documents.lengths):
            raise FieldError('data.documents', self.documents, f'the {which} text has no document of two tokens or more')
        return Packed(documents.__getitem__, documents.lengths, self.steps, batch_size)


def load_corpus(options, saved=None):
    """Reads the source that `config.data` names; makes its codec, unless a saved one is given.

    Characters are taken from the whole text, so that the held-out part has none that are unknown; byte pairs and words
    are learned from the training part alone.
    """
    text = open_text(options.source, held_out=options.get('held_out', 0.1), directory=options.get('directory', ''),
                     column=options.get('input_column', ''), encoding=options.get('encoding', 'utf-8'))
    if saved is not None:
        check_inherited(saved, options)
        tokenizer = saved.tokenizer
    else:
        kind, splits = options.tokenizer, text.splits if options.tokenizer == 'char' else ('train',)
        tokenizer = learned(text, kind, lambda chunks: tokenizers.train(kind, chunks(*splits), options.vocabulary),
                            [options.vocabulary, splits])
    parts = tokenised(text, tokenizer, documents=options.documents, units='documents' if options.documents else '')
    return Corpus(parts, TextCodec(tokenizer, options.sequence_length), options.source, text.sha256,
                  stateful=options.stateful and not options.documents, documents=options.documents)
