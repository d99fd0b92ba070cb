"""The codec of pairs: a source and its target become tokens, and what a model writes becomes a text again.

    token    0         1         2        3      4 ...
    is       padding   unknown   start    end    the tags, then what the tokenizer knows, then the sentinels

in both vocabularies. A row ends with its end; start is only ever what a decoder reads first. A tag says which language is
wanted, '<de> Germany' (Johnson et al. 2017): sources begin with one, all of them or none, and answers never do. A sentinel,
'<extra_id_0>', stands for a span that is missing (Raffel et al. 2020): see `span_corruption`, which alone has them.
"""

from collections.abc import Iterable
import dataclasses
import functools
import re
from typing import Any, Self

import numpy as np

from seqjax.data.text import tokenizers
from seqjax.data.text.codec import NAMES, Codec, WithSpecialTokens, learn_tokenizer
from seqjax.errors import FieldError, UserError, suggestion
from seqjax.special_tokens import END, MASK, PADDING, UNKNOWN

_NAMES = NAMES[:MASK]
_TAG = re.compile(r'(<[^<>\s]+>) ')
_SENTINEL = re.compile(r'(<extra_id_\d+>)')


@dataclasses.dataclass(frozen=True)
class Vocabulary(WithSpecialTokens):
    """The tokens of one side, without their end: the four above, the tags, those of a tokenizer, and so many sentinels."""

    tokenizer: Any
    tags: tuple[str, ...] = ()
    sentinels: int = 0

    @property
    def special(self) -> tuple[str, ...]:
        return (*_NAMES, *self.tags)

    def encode(self, text):
        """Those of a whole text, in which '<extra_id_0>' is a sentinel where there are any."""
        if not self.sentinels:
            return self.tokens(self._blank + text)
        first, *pieces = _SENTINEL.split(text)
        pieces = [self._blank + first if first else '', *pieces]
        before_sentinel = [piece.removesuffix(self._blank) for piece in pieces[:-1]]  # byte pairs have the blank after it
        return np.concatenate([np.array([self._sentinels[piece]], np.int32) if piece in self._sentinels else self.tokens(piece)
                               for piece in (*before_sentinel, pieces[-1])])

    def decode(self, tokens):
        """The text of tokens. Where the tokenizer knows of unknown symbols they show, and sentinels do; the rest that are no
        text do not."""
        spans, names = [[]], ['']
        for token in map(int, tokens):
            if token >= self.first_sentinel:
                names.append(f'<extra_id_{token - self.first_sentinel}>')
                spans.append([])
            elif token >= len(self.special) or PADDING < token < self._own:
                spans[-1].append(token if token < self._own else token - self._shift)
        pieces = [piece for name, span in zip(names, spans) for piece in (name, self.tokenizer.decode(span)) if piece]
        return self.tokenizer.glue.join(pieces).removeprefix(self._blank)

    def words(self, tokens):
        """Something to print for every token; a blank is the mark of SentencePiece."""
        names = dict(enumerate(self.special)) | {token: name for name, token in self._sentinels.items()}
        pieces = [names[token] if token in names else self.tokenizer.decode([token - self._shift])
                  for token in map(int, tokens)]
        return [piece if piece.isprintable() and ' ' not in piece else _printable(piece) for piece in pieces]

    @functools.cached_property
    def _sentinels(self):
        """The token of every sentinel, by its name."""
        return {f'<extra_id_{i}>': self.first_sentinel + i for i in range(self.sentinels)}

    @functools.cached_property
    def _blank(self):
        """Pieces of a word begin with the blank before it: with one the first word has the tokens it has elsewhere."""
        return ' ' if isinstance(self.tokenizer, tokenizers.BPETokenizer) else ''


@dataclasses.dataclass(frozen=True)
class PairCodec(Codec):
    """Decided by the training pairs alone: two vocabularies, or one that both sides share.

    lowercase: capitals of both sides become small letters.
    """

    kind = 'pairs'
    tokenizer = None  # there may be two: those of the sides
    source_side: Vocabulary
    target_side: Vocabulary
    lowercase: bool = False

    @property
    def shared(self):
        return self.source_side is self.target_side

    def clean(self, text):
        """A text as it is read, and as an answer is compared with it."""
        return text.lower() if self.lowercase else text

    def inputs(self, sequence: str) -> np.ndarray:
        """The tokens of a source text [S], its tag first where there are tags, the end last."""
        return self.source(sequence)

    def source(self, text: str) -> np.ndarray:
        """The tokens of a source text [S], its tag first where there are tags, the end last."""
        tags, (tag, rest) = self.source_side.tags, cut_tag(self.clean(text))
        if not tags:
            return _ended(self.source_side.encode(self.clean(text)))
        if tag not in tags:
            raise UserError(f'{text[:40]!r} begins with no tag that was learned; there are: {", ".join(tags)}')
        return _ended(self.source_side.encode(rest), [len(_NAMES) + tags.index(tag)])

    def target(self, text):
        """The tokens of a target text [T], the end last."""
        return _ended(self.target_side.encode(self.clean(text)))

    def prefix(self, text):
        """The tokens of what an answer is to begin with [P]; none of them may be unknown."""
        if not text:
            return np.zeros(0, np.int32)  # byte pairs would begin with a blank
        tokens, unit = self.target_side.encode(self.clean(text)), getattr(self.target_side.tokenizer, 'unit', '')
        if (tokens == UNKNOWN).any():
            parts = self.clean(text) if unit == 'char' else self.clean(text).split()
            unknown = dict.fromkeys(part for part in parts if (self.target_side.encode(part) == UNKNOWN).any())
            raise UserError(f'the answers of the run have no {", ".join(map(repr, unknown))}')
        return tokens

    def text(self, tokens: Iterable[int]) -> str:
        """The text of target tokens, up to their end."""
        return self.target_side.decode(_before_end(tokens))

    def source_words(self, tokens):
        """Something to print for every token of a source."""
        return self.source_side.words(tokens)

    def target_words(self, tokens):
        """The same of a target."""
        return self.target_side.words(tokens)

    def row(self, example):
        """dict(inputs [S], targets [T], weights [T]) of one pair."""
        targets = self.target(example.target)
        return dict(inputs=self.source(example.inputs), targets=targets, weights=np.ones(len(targets), np.float32))

    def limits(self, limits: Any) -> Any:
        """`decode.Limits` of answers, as the codec knows them."""
        return limits

    def for_model(self):
        """What the data decides about a model."""
        return dict(vocabulary=self.source_side.size, target_vocabulary=self.target_side.size, shared=self.shared)

    def as_options(self):
        """{field of `config.data`: value}: what a run that reads like this says of it."""
        return dict(tokenizer=tokenizers.name_of(self.source_side.tokenizer), shared_vocabulary=self.shared, lowercase=self.lowercase)

    def state(self) -> dict[str, Any]:
        target = None if self.shared else tokenizers.dumps(self.target_side.tokenizer)
        return dict(source=tokenizers.dumps(self.source_side.tokenizer), target=target, tags=self.source_side.tags,
                    sentinels=self.source_side.sentinels, lowercase=self.lowercase)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        source = Vocabulary(tokenizers.loads(state['source']), tuple(state['tags']), state.get('sentinels', 0))
        target = Vocabulary(tokenizers.loads(state['target'])) if state['target'] else source
        return cls(source, target, state['lowercase'])


def learn_pairs(examples, options):
    """The codec that training pairs give; options: `config.data`. Tags are learned where every source begins with one."""
    lowercase = options.lowercase
    sources, targets = ([text.lower() if lowercase else text for text in texts]
                        for texts in zip(*((example.inputs, example.target) for example in examples)))
    tags = {cut_tag(text)[0] for text in sources}
    tags = () if None in tags else tuple(sorted(tags))
    if tags:
        sources = [cut_tag(text)[1] for text in sources]
    if options.shared_vocabulary:
        both = learn_side(sources + targets, options, tags)
        return PairCodec(both, both, lowercase)
    return PairCodec(learn_side(sources, options, tags), learn_side(targets, options), lowercase)


def cut_tag(text):
    """('<de>', 'Germany') of '<de> Germany'; (None, the text) where it begins with no tag."""
    found = _TAG.match(text)
    return (found[1], text[found.end():]) if found else (None, text)


def learn_side(texts, options, tags=()):
    """The vocabulary of texts. Pieces are learned with the blank before the first word, with which every text is read."""
    if options.tokenizer not in tokenizers.KINDS:
        raise FieldError('data.tokenizer', options.tokenizer, f'no such tokenizer; {suggestion(options.tokenizer, tokenizers.KINDS)}')
    pieces = options.tokenizer not in ('char', 'word')
    return Vocabulary(learn_tokenizer(options, [f' {text}' for text in texts] if pieces else texts), tags)


def _ended(tokens, tag=()):
    return np.concatenate([np.asarray(tag, np.int32), tokens, np.array([END], np.int32)])


def _before_end(tokens):
    tokens = np.asarray(tokens)
    return tokens[:np.argmax(tokens == END)] if (tokens == END).any() else tokens


def _printable(piece):
    """Blanks as '▁', and line ends and the like as Python writes them."""
    return ''.join('▁' if letter == ' ' else letter if letter.isprintable() else repr(letter)[1:-1] for letter in piece)
