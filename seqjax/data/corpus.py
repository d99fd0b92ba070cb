"""A text as tokens: its batches, and what it takes to know the same text again."""

import dataclasses
import functools
import hashlib

import numpy as np

from seqjax.data.batches.packing import Documents, Packed, split_documents
from seqjax.data.batches.streams import evaluation_streams, training_streams
from seqjax.data.batches.windows import evaluation_batches, training_batches
from seqjax.data.text import tokenizers
from seqjax.data.text.codec import TextCodec
from seqjax.data.text.codecs import FILE
from seqjax.data.text.inheritance import check_inherited
from seqjax.data.text.sources import load_text
from seqjax.errors import FieldError

SEPARATORS = {'line': '\n', 'paragraph': '\n\n'}


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Token numbers of the training and the held-out part, their codec, where the text is from and its hash.

    carry: whether a row goes on where that of the batch before ended. documents: what ends a
    document; then rows hold several, see `data.packing`, and train_ends and validation_ends say where in the tokens every
    document ends. Interface: see `data.load`.
    """

    train: np.ndarray
    validation: np.ndarray
    codec: TextCodec
    source: str
    sha256: str
    carry: bool = False
    documents: str = ''
    train_ends: np.ndarray | None = None
    validation_ends: np.ndarray | None = None

    splits = ('train', 'validation')
    shapes = (1, 1)
    has_gaps = False

    @property
    def tokenizer(self):
        return self.codec.tokenizer

    @property
    def steps(self):
        """Tokens of a row."""
        return self.codec.steps

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        part = dict(process=process, processes=processes)
        if self.documents:
            return self._packed(self._training_documents, batch_size, 'training').training(seed, **part)
        make = training_streams if self.carry else training_batches
        return make(self.train, sequence_length=self.steps, batch_size=batch_size, seed=seed, **part)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        del split  # there is one
        part = dict(limit=limit, process=process, processes=processes)
        if self.documents:
            documents = Documents(self.validation, self.validation_ends, self.steps)
            return self._packed(documents, batch_size, 'held-out').evaluation(**part)
        make = evaluation_streams if self.carry else evaluation_batches
        return make(self.validation, sequence_length=self.steps, batch_size=batch_size, **part)

    def for_model(self):
        return self.codec.for_model()

    def for_task(self):
        return self.codec.for_task()

    def files(self):
        """What a run keeps to read and write such text: {name: text}."""
        return {FILE: self.codec.dumps()}

    def sample(self):
        """A batch of one row."""
        inputs = np.zeros((1, self.steps), np.int32)
        segments = dict(segments=np.ones_like(inputs)) if self.documents else {}
        return dict(inputs=inputs, targets=inputs, weights=np.ones(inputs.shape, np.float32), **segments)

    def facts(self):
        """What a run writes down to know the text again."""
        return dict(source=self.source, sha256=self.sha256, train_tokens=len(self.train),
                    validation_tokens=len(self.validation), vocabulary=self.tokenizer.vocabulary, **self._document_facts)

    def __str__(self):
        text = f'{len(self.train):,} training and {len(self.validation):,} held-out tokens'
        if not self.documents:
            return text
        return text + (', {train_documents:,} + {validation_documents:,} documents, {cut_documents:,} of the first cut into '
                       'pieces, {real_positions:.2%} of their positions real').format(**self._document_facts)

    @functools.cached_property
    def _document_facts(self):
        if not self.documents:
            return {}
        packed = self._packed(self._training_documents, 1, 'training')
        return dict(train_documents=len(self.train_ends), validation_documents=len(self.validation_ends),
                    cut_documents=self._training_documents.cut, real_positions=packed.efficiency())

    @functools.cached_property
    def _training_documents(self):
        return Documents(self.train, self.train_ends, self.steps)

    def _packed(self, documents, batch_size, which):
        if not len(documents.lengths):
            raise FieldError('data.documents', self.documents, f'the {which} text has no document of two tokens or more')
        return Packed(documents.__getitem__, documents.lengths, self.steps, batch_size)


def load_corpus(options, saved=None):
    """Reads the source that `config.data` names; makes its codec, unless a saved one is given.

    Characters are taken from the whole text, so that the held-out part has none that are unknown; byte pairs and words
    are learned from the training part alone.
    """
    text = load_text(options.source, held_out=options.held_out, directory=options.get('directory', ''),
                     column=options.get('input_column', ''))
    if saved is None:
        whole = text.train + text.validation if options.tokenizer == 'char' else text.train
        tokenizer = tokenizers.train(options.tokenizer, whole, options.vocabulary)
    else:
        check_inherited(saved, options)
        tokenizer = saved.tokenizer
    digest = hashlib.sha256(f'{len(text.train)} {text.train}{text.validation}'.encode()).hexdigest()
    same = dict(codec=TextCodec(tokenizer, options.sequence_length), source=options.source, sha256=digest)
    if not options.documents:
        return Corpus(tokenizer.encode(text.train), tokenizer.encode(text.validation), carry=options.carry, **same)
    separator = SEPARATORS.get(options.documents, options.documents)
    (train, train_ends), (validation, validation_ends) = (
        _document_tokens(tokenizer, part, separator) for part in (text.train, text.validation))
    return Corpus(train, validation, documents=options.documents, train_ends=train_ends, validation_ends=validation_ends,
                  **same)


def _document_tokens(tokenizer, text, separator):
    """(the tokens of all documents, where each ends); no token reaches from one document to the next."""
    documents = [tokenizer.encode(document) for document in split_documents(text, separator)]
    ends = np.cumsum([len(document) for document in documents], dtype=int)
    return np.concatenate([np.zeros(0, np.int32), *documents]), ends
