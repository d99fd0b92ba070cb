"""A text in which something is hidden and to be found again: masked tokens, or spans that are missing.

The batch of a step is a pure function of (seed, step): training draws places, and what is hidden there, anew every epoch.
What the evaluation hides in row i depends on i alone, so that evaluations of one run, and runs, can be compared.
"""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from seqjax.data.batches.per_process import evaluated, per_process, shuffled
from seqjax.data.dataset import Dataset
from seqjax.data.readers.examples import SPLITS
from seqjax.data.text import tokenizers
from seqjax.data.text.codec import learn_tokenizer
from seqjax.data.text.inheritance import check_inherited
from seqjax.data.text.labelled_codec import LabelledCodec
from seqjax.data.text.marking import SHORTEST_ROW
from seqjax.data.text.masking import Masking
from seqjax.data.text.next_sentence import SentencePairs
from seqjax.data.text.pair_codec import PairCodec, Vocabulary
from seqjax.data.text.sources import open_text
from seqjax.data.text.span_corruption import SENTINELS, SpanCorruption
from seqjax.data.text.tokenised import learned, tokenised
from seqjax.errors import FieldError
from seqjax.tasks import TASKS, span_counts, text_length

EVALUATION_SEED = 0  # of what is hidden in held-out rows


@dataclasses.dataclass(frozen=True, eq=False)
class Pieces:
    """A text in pieces of 2 to `longest` tokens; none reaches from one document to the next.

    ends: where in `tokens` every document ends. A single token that is left over is in no piece.
    """

    tokens: np.ndarray
    ends: np.ndarray
    longest: int

    def __len__(self):
        return len(self.places)

    @functools.cached_property
    def places(self):
        """(first token, where its document begins, where it ends) of every piece [P, 3]."""
        begins = np.concatenate([[0], self.ends])[:-1].astype(int)
        counts = -(-(self.ends - begins) // self.longest)  # of every document
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... in its document
        begins, ends = np.repeat(begins, counts), np.repeat(self.ends, counts)
        places = np.stack([begins + number * self.longest, begins, ends], axis=1)
        return places[places[:, 2] - places[:, 0] > 1]

    def fixed(self, i, rng):
        """((tokens of piece i,), {})."""
        del rng
        start, _, end = self.places[i]
        return (self.tokens[start:min(start + self.longest, end)],), {}

    def drawn(self, i, rng):
        """The same, moved right by up to a piece as far as the document reaches, and full where that is long enough."""
        start, begin, end = self.places[i]
        start = max(begin, min(start + int(rng.integers(self.longest)), end - self.longest))
        return (self.tokens[start:min(start + self.longest, end)],), {}


@dataclasses.dataclass(frozen=True)
class Pretraining(Dataset):
    """Rows of a text with something hidden in them. Interface: `data.Dataset`.

    texts: {'train': Pieces or SentencePairs, 'validation': ...}: drawn(i, rng) or fixed(i, rng) -> (texts, more of the row).
    hide(*texts, rng=rng) -> a row: a `Masking`, whose batches have inputs [B, T], lengths [B], places [B, M], targets [B, M],
    weights [B, M], and next [B] where two texts are in a row; or a `SpanCorruption`, whose batches are those of translations.
    codec: how a run that goes on from this one reads.
    """

    source: str
    sha256: str
    texts: dict
    hide: Any
    codec: Any

    @property
    def splits(self):
        return tuple(self.texts)

    @property
    def tokenizer(self):
        return None if self.is_translation else self.codec.tokenizer

    @property
    def is_translation(self):
        return isinstance(self.hide, SpanCorruption)

    @property
    def steps(self):
        """Those of a row; of a source and its target together."""
        return sum(self.hide.sizes) if self.is_translation else self.hide.steps

    def training_batches(self, *, batch_size, seed, process=0, processes=1):
        texts = self.texts['train']
        rows = shuffled(len(texts), seed).random_map(lambda i, rng: self._row(texts.drawn, int(i), rng))
        return per_process(rows, batch_size, process, processes)

    def evaluation_batches(self, *, batch_size, split='validation', limit=0, process=0, processes=1):
        """Every piece of the held-out text once, the last batch filled up with rows of zeros."""
        texts = self.texts[split]

        def row(i):
            made = self._row(texts.fixed, min(i, len(texts) - 1), np.random.default_rng((EVALUATION_SEED, i)))
            return made if i < len(texts) else jax.tree.map(np.zeros_like, made)

        return evaluated(row, len(texts), batch_size, limit, process, processes)

    def sample(self):
        """A batch of one row."""
        row = self._row(self.texts['train'].fixed, 0, np.random.default_rng(EVALUATION_SEED))
        return jax.tree.map(lambda x: np.asarray(x)[None], row)

    def facts(self):
        """What a run writes down to know the text again."""
        return dict(source=self.source, sha256=self.sha256, train_tokens=len(self.texts['train'].tokens),
                    validation_tokens=len(self.texts['validation'].tokens), vocabulary=self.for_model()['vocabulary'],
                    train_rows=len(self.texts['train']), validation_rows=len(self.texts['validation']))

    def __str__(self):
        tokens = '{train_tokens:,} training and {validation_tokens:,} held-out tokens'.format(**self.facts())
        if self.is_translation:
            S, T = self.hide.sizes
            return f'{tokens}, {S} of a source and {T} of a target'
        return f'{tokens}, {self.hide.most} of {self.steps} in a row to be found'

    def _row(self, text, i, rng):
        texts, more = text(i, rng)
        return {**self.hide(*texts, rng=rng), **more}


def load_pretraining(options, task, saved=None):
    """Reads the text that `config.data` names for a task in which something is hidden.

    saved: how the run itself, or one that it goes on from, reads; otherwise tokens are learned from the training part.
    """
    if options.sequence_length < SHORTEST_ROW:
        raise FieldError('data.sequence_length', options.sequence_length, f'{task} needs rows of {SHORTEST_ROW} steps or more')
    text = open_text(options.source, held_out=options.get('held_out', 0.1), directory=options.get('directory', ''),
                     column=options.get('input_column', ''), encoding=options.get('encoding', 'utf-8'))
    make = dict(masked=_masked, spans=_corrupted)[TASKS[task].data]
    hide, how, texts = make(task, options, saved, text)
    for which, rows in zip(('training', 'held-out', 'test'), texts.values()):
        if not len(rows):
            raise FieldError('data.source', options.source, f'the {which} text has nothing that makes a row'
                             + (', which takes two lines of one document' if options.next_sentence else ''))
        if options.next_sentence and len(rows.documents) == len(rows) == 1:
            raise FieldError('data.next_sentence', True, f'the {which} text is so short that nothing is elsewhere in it; '
                             'use a longer one, or set it to false')
    return Pretraining(options.source, text.sha256, texts, hide, how)


def _masked(task, options, saved, text):
    """(what hides, the codec, {split: Pieces or SentencePairs})."""
    how, steps = saved, options.sequence_length
    if how is None:
        how = LabelledCodec(task, _tokenizer(options, text), marked=True, longest=steps)
    check_inherited(how, options, decided=('special_tokens',))
    if not how.marked:
        raise FieldError('task', task, 'the run that this one starts from reads rows without marks, and has no token to '
                         'mask with; start from one that was trained with config.data.special_tokens=true')
    if steps > how.longest:
        raise FieldError('data.sequence_length', steps, 'the model that this run starts from reads rows of up to '
                         f'{how.longest} steps; set it to that or less')
    hide = Masking(steps, how.vocabulary, options.mask_probability, how.marks)
    parts = tokenised(text, how.tokenizer, encode=how.tokens, how='marked', vocabulary=how.vocabulary,
                      documents=options.documents, units='sentences' if options.next_sentence else 'documents')
    if options.next_sentence:
        texts = {split: SentencePairs(part.tokens, part.ends, part.documents, steps - 3) for split, part in parts.items()}
    else:
        texts = {split: Pieces(part.tokens, part.ends, steps - 2) for split, part in parts.items()}
    return hide, dataclasses.replace(how, task=task), texts


def _corrupted(task, options, saved, text):
    """(what hides, the codec, {split: Pieces})."""
    how, share, mean = saved, options.mask_probability, options.span_length
    if how is None:
        both = Vocabulary(_tokenizer(options, text, lower=options.lowercase), sentinels=SENTINELS)
        how = PairCodec(both, both, options.lowercase)
    check_inherited(how, options, decided=('shared_vocabulary',))
    longest, side = text_length(options.sequence_length, share, mean), how.source_side
    if not side.sentinels:
        raise FieldError('task', task, 'the run that this one starts from has no sentinels; start from one that '
                         'was trained for it')
    if span_counts(longest, share, mean)[1] > side.sentinels:
        raise FieldError('data.sequence_length', options.sequence_length, f'so long a row has more spans than the {SENTINELS} '
                         'sentinels of the vocabulary; make rows shorter, or config.data.span_length larger')
    hide = SpanCorruption(longest, side.first_sentinel, share, mean)
    # A capital letter may be made small in one way or another, as those around it say: then a part ends with a word.
    at_blank = how.lowercase and side.tokenizer.boundary is tokenizers.anywhere
    parts = tokenised(text, side.tokenizer, encode=lambda part: side.tokens(how.clean(part)), vocabulary=side.size,
                      how=['spans', side.tags, how.lowercase], boundary=tokenizers.at_blank if at_blank else None,
                      documents=options.documents, units='documents')
    return hide, how, {split: Pieces(part.tokens, part.ends, longest) for split, part in parts.items()}


def _tokenizer(options, text, lower=False):
    """Characters and words that the training text does not have are unknown: a run that goes on may meet some."""
    def learn(chunks):
        words = tokenizers.parts(chunks(SPLITS[0]), tokenizers.at_blank)
        return learn_tokenizer(options, (part.lower() for part in words) if lower else words, separator='',
                               lowercase=options.lowercase)

    return learned(text, options.tokenizer, learn, ['hidden', options.vocabulary, options.lowercase, lower])
