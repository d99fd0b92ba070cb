"""A text as tokens on disk: made once, chunk by chunk, and memory-mapped by every run that reads it."""

from collections.abc import Callable, Iterable, Iterator
import dataclasses
import functools
import importlib.metadata
from typing import Any

import numpy as np

from seqjax.data.cache import remembered
from seqjax.data.mapped import Tokens, Writer
from seqjax.data.text import tokenizers
from seqjax.data.text.next_sentence import sentences
from seqjax.data.text.sources import TextSource
from seqjax.special_tokens import UNKNOWN

SEPARATORS = {'line': '\n', 'paragraph': '\n\n'}


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """The tokens of a split.

    ends: where in them every unit ends, a document or a sentence. documents: the number of units that were there when each
    document ended. unknown: how many of the tokens are UNKNOWN.
    """

    tokens: Tokens
    ends: np.ndarray
    documents: np.ndarray
    unknown: int


def learned(text: TextSource, kind: str, learn: Callable[[Callable[..., Iterable[str]]], Any], options: Any) -> Any:
    """The tokenizer that learn(text.chunks) makes; one that was learned before from the same text is read.

    kind, options: what it is and all that decides about it beside the text, as JSON.
    """
    key = [kind, options, text.sha256, importlib.metadata.version('tokenizers')]
    facts, _ = remembered('tokenizer', key, lambda folder: dict(saved=tokenizers.dumps(learn(text.chunks))))
    return tokenizers.loads(facts['saved'])


def tokenised(text: TextSource, tokenizer: Any, *, encode: Callable[[str], np.ndarray] | None = None, how: Any = None,
              vocabulary: int = 0, boundary: Callable[[str], int] | None = None, documents: str = '',
              units: str = '') -> dict[str, Part]:
    """{split: Part} of a text.

    encode: a part of text -> tokens below `vocabulary`, where it is not the tokenizer itself; how: what decides about it beside
    the tokenizer, as JSON; boundary: where parts may end, if not where those of the tokenizer may. documents: what ends one, '' for one in all. units: 'documents' or 'sentences', '' where no ends are
    needed.
    """
    encode, vocabulary = encode or tokenizer.encode, vocabulary or tokenizer.vocabulary
    dtype = np.min_scalar_type(vocabulary - 1)
    separator = SEPARATORS.get(documents, documents)
    key = [text.sha256, tokenizers.dumps(tokenizer), how, separator, units]

    def make(folder):
        return {split: _write(folder, split, _units(text.chunks(split), separator, units, boundary or tokenizer.boundary), encode,
                              dtype, units == 'sentences')
                for split in text.splits}

    facts, folder = remembered('tokens', key, make)
    read = functools.partial(np.load, allow_pickle=False)
    return {split: Part(Tokens(folder / f'{split}.npy'), read(folder / f'{split}_ends.npy'),
                        read(folder / f'{split}_documents.npy'), facts[split]) for split in text.splits}


def _write(folder, split, pieces, encode, dtype, skip_empty):
    """Writes the tokens of (text, ends a unit, ends a document); returns how many are unknown.

    skip_empty: units without a token, and documents without a unit, are none.
    """
    tokens, unknown, units, before = Writer(folder / f'{split}.npy', dtype), 0, 0, 0
    ends, documents = (Writer(folder / f'{split}_{name}.npy', np.int64) for name in ('ends', 'documents'))
    for text, ends_unit, ends_document in pieces:
        found = encode(text)
        tokens.add(found)
        unknown += int(np.count_nonzero(found == UNKNOWN))
        if ends_unit and (len(found) or not skip_empty):
            ends.add([tokens.length])
            units += 1
        if ends_document and (units > before or not skip_empty):
            documents.add([units])
            before = units
    for file in (tokens, ends, documents):
        file.close()
    return unknown


def _units(chunks: Iterable[str], separator: str, units: str, boundary: Callable) -> Iterator[tuple[str, bool, bool]]:
    """(part of a text, whether a unit ends with it, whether a document does)."""
    if not units:
        return ((part, False, False) for part in tokenizers.parts(chunks, boundary))
    if units == 'sentences':
        return _sentences(_documents(chunks, separator, tokenizers.at_line_end))
    return ((part, end, end) for part, end in _documents(chunks, separator, boundary))


def _documents(chunks, separator, boundary):
    """(part, whether a document ends with it): the separator ends a document and is part of it; long ones come in parts."""
    rest, begun = '', False
    for chunk in tokenizers.parts(chunks, tokenizers.anywhere):
        rest += chunk
        if separator:
            *ended, rest = rest.split(separator)
            for document in ended:
                yield from _in_parts(document + separator, boundary)
                begun = False
        if len(rest) > 4 * tokenizers.PART:
            cut = boundary(rest[:len(rest) - len(separator)])  # a separator may have begun
            if cut:
                yield rest[:cut], False
            rest, begun = rest[cut:], True
    if rest or begun:
        yield from _in_parts(rest, boundary)


def _in_parts(document, boundary):
    *parts, last = tokenizers.parts([document], boundary) if document else ['']
    yield from ((part, False) for part in parts)
    yield last, True


def _sentences(documents):
    """(sentence, True, whether its document ends) of documents in parts."""
    rest = ''
    for part, end in documents:
        *done, rest = sentences(rest + part) or ['']
        yield from ((sentence, True, False) for sentence in done)
        if end:
            if rest:
                yield rest, True, True
            rest = ''
