"""Codecs: how records become numbers and back. A run keeps its own as codec.json.

    kind        records                                             numbers
    text        one long text                                       tokens
    labelled    a text, words, two texts or frames, and a target    inputs, targets and weights of a row
    pairs       a source text and its target text                   the same, targets being tokens too
    captions    an image and a caption                              the same, inputs being pixels

    token    0       1       2 ...
    is       <pad>   <unk>   more special tokens, then those of the tokenizer, then sentinels

in all kinds but text, whose tokens are those of the tokenizer alone.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np

from seqjax.data.text import tokenizers
from seqjax.data.text.pretrained_tokenizer import PretrainedTokenizer

FILE = 'codec.json'  # of a run
NAMES = ('<pad>', '<unk>', '<s>', '</s>', '<mask>')  # of special tokens, in the order of `seqjax.special_tokens`


class Codec:
    """Base class of all codecs, which are frozen dataclasses. A stranger's is named in `codecs.CODECS`.

    Subclasses define `inputs`, `text`, `row`, `for_model`, `as_options`, `state` and `from_state`.
    """

    kind: ClassVar[str]
    of_images: ClassVar[bool] = False  # whether inputs are pixels, with `mean` and `deviation`
    tokenizer: Any

    def inputs(self, sequence: Any) -> Any:
        """Numbers of what a model reads."""
        raise NotImplementedError

    def text(self, tokens: Iterable[int]) -> str:
        """The text of tokens that a model has written."""
        raise NotImplementedError

    def row(self, example: Any) -> dict[str, np.ndarray]:
        """Inputs, targets and weights of one record."""
        raise NotImplementedError

    def for_model(self) -> dict[str, Any]:
        """Fields of a model that the data decides."""
        raise NotImplementedError

    def for_task(self) -> dict[str, Any]:
        """Fields of a task that the data decides."""
        return {}

    def as_options(self) -> dict[str, Any]:
        """{field of `config.data`: value} of a run that has this codec."""
        raise NotImplementedError

    def without_answers(self) -> Self:
        """The codec with its tokens alone, for a run that starts from this one and has targets of its own."""
        return self

    def state(self) -> dict[str, Any]:
        """All that is saved, as JSON has it."""
        raise NotImplementedError

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The codec of a state that was saved; fields that an older run did not have are missing."""
        raise NotImplementedError

    def dumps(self) -> str:
        """The codec as JSON text; `codecs.load_codec` reads it."""
        return json.dumps(dict(kind=self.kind, **self.state()), ensure_ascii=False) + '\n'


@dataclasses.dataclass(frozen=True)
class TextCodec(Codec):
    """Tokens of a language model, in rows of `steps`."""

    kind = 'text'
    tokenizer: Any
    steps: int = 0

    def inputs(self, sequence: str) -> np.ndarray:
        return self.tokenizer.encode(sequence)

    def text(self, tokens: Iterable[int]) -> str:
        return self.tokenizer.decode(tokens)

    def row(self, example: str) -> dict[str, np.ndarray]:
        tokens = self.inputs(example)
        return dict(inputs=tokens[:-1], targets=tokens[1:], weights=np.ones(max(0, len(tokens) - 1), np.float32))

    def for_model(self) -> dict[str, Any]:
        """Pretrained weights may have positions for longer rows."""
        longest = max(self.steps, getattr(self.tokenizer, 'context_length', 0))
        return dict(vocabulary=self.tokenizer.vocabulary, context_length=longest)

    def for_task(self) -> dict[str, Any]:
        return dict(token_sizes=self.tokenizer.sizes())

    def as_options(self) -> dict[str, Any]:
        return dict(tokenizer=tokenizers.name_of(self.tokenizer))

    def state(self) -> dict[str, Any]:
        return dict(tokenizer=tokenizers.dumps(self.tokenizer), steps=self.steps)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        return cls(tokenizers.loads(state['tokenizer']), state['steps'])


class WithSpecialTokens:
    """Special tokens, those of a tokenizer after them, then so many sentinels.

    special: names of the first tokens. A pretrained tokenizer has special tokens itself, and is not shifted.
    """

    tokenizer: Any
    special: tuple[str, ...]
    sentinels: int = 0

    @property
    def size(self) -> int:
        return self.first_sentinel + self.sentinels

    @property
    def first_sentinel(self) -> int:
        return self._shift + self.tokenizer.vocabulary

    def tokens(self, text: Any) -> np.ndarray:
        """Tokens of a text or of a tuple of symbols, in which nothing is special."""
        tokens = self.tokenizer.encode(text)
        return tokens + np.int32(self._shift) * (tokens >= self._own)

    @functools.cached_property
    def _own(self) -> int:
        """A SymbolTokenizer has padding and unknown itself, and they are the same two; other tokenizers have neither."""
        return 2 if isinstance(self.tokenizer, tokenizers.SymbolTokenizer) else 0

    @functools.cached_property
    def _shift(self) -> int:
        """How far the tokens of the tokenizer are moved up."""
        return 0 if isinstance(self.tokenizer, PretrainedTokenizer) else len(self.special) - self._own


def learn_tokenizer(options: Any, texts: Iterable[Any], *, separator: str = '\n', lowercase: bool = False) -> Any:
    """A tokenizer as `config.data` wants it, learned from texts or tuples of words.

    Characters and words that they do not have are unknown, padding and unknown being tokens 0 and 1. Pieces are learned from
    the texts as one, with `separator` between them.
    """
    kind = options.tokenizer
    if kind in ('char', 'word'):
        return tokenizers.symbols(kind, texts, options.vocabulary if kind == 'word' else 0, lowercase)
    joined = (separator * (i > 0) + (text if isinstance(text, str) else ' '.join(text)) for i, text in enumerate(texts))
    return tokenizers.train(kind, joined, options.vocabulary)
