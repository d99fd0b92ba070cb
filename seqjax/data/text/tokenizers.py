"""Text to token numbers and back: characters, bytes, pieces of words learned from the text, or its most frequent words.

A long text is learned from and encoded in parts, cut where `boundary(text)` allows: after that many characters, the last place
where tokens cannot span. `dumps` and `loads` write and read tokenizers of any kind. `sizes()` is [V, 2]: the characters
and the bytes of UTF-8 that every token stands for; a character that is cut counts where its first byte is.
"""

import collections
from collections.abc import Callable, Iterable, Iterator
import json
import re

import numpy as np

from seqjax.data.text.pretrained_tokenizer import PretrainedTokenizer
from seqjax.errors import FieldError, UserError, suggestion

CONTINUATION = range(0x80, 0xC0)  # the bytes of UTF-8 that go on with a character
PART = 1 << 20  # characters that are tokenized at once, about
LINE_END = '<eos>'  # of a word model of lines, as in the Penn Treebank and WikiText
LONGEST_WORD = 4096  # characters that a unigram model learns from at once: without a blank, time grows faster than their number


def anywhere(text: str) -> int:
    """The boundary of tokens of one character or byte."""
    return len(text)


def at_blank(text: str) -> int:
    """The boundary of words: after the last blank, 0 where there is none."""
    return next((place for place in range(len(text), 0, -1) if text[place - 1].isspace()), 0)


def between_words(text: str) -> int:
    """The boundary of pieces that have the blank before a word: before that of the last word of plain letters or digits."""
    last = None
    for last in re.finditer('[A-Za-z0-9](?= [A-Za-z0-9])', text):
        pass
    return last.end() if last else 0


def at_line_end(text: str) -> int:
    """The boundary of pieces of lines; where there is no line end, one between words."""
    return text.rfind('\n') + 1 or between_words(text)


def parts(text: str | Iterable[str], boundary: Callable[[str], int]) -> Iterator[str]:
    """The text, whole or in chunks of any length, in parts of about PART characters that can be tokenized one by one."""
    waiting, size, enough = [], 0, PART
    for chunk in [text] if isinstance(text, str) else text:
        waiting.append(chunk)
        size += len(chunk)
        if size >= enough:
            joined = ''.join(waiting)
            cut = boundary(joined)
            if cut:
                yield joined[:cut]
            waiting, size = [joined[cut:]], len(joined) - cut
            enough = 2 * size + PART  # without a boundary: so that little is joined again
    if last := ''.join(waiting):
        yield last


class CharTokenizer:
    """One token a character; the vocabulary is the characters of the text, in the order of their code points."""

    kind = 'char'
    glue = ''
    boundary = staticmethod(anywhere)

    def __init__(self, characters):
        self.characters = characters
        self._codes = _code_points(characters)

    @classmethod
    def train(cls, text, vocabulary):
        del vocabulary  # the text decides
        characters = set()
        for part in parts(text, cls.boundary):
            characters.update(part)
        return cls(''.join(sorted(characters)))

    @property
    def vocabulary(self):
        return len(self.characters)

    def encode(self, text):
        codes = _code_points(text)
        tokens = np.searchsorted(self._codes, codes).clip(max=self.vocabulary - 1)
        unknown = self._codes[tokens] != codes
        if unknown.any():
            character = text[int(np.argmax(unknown))]
            raise UserError(f'character {character!r} was not in the text the tokenizer was made from; '
                            f'it knows these: {self.characters!r}')
        return tokens.astype(np.int32)

    def decode(self, tokens):
        return ''.join(self.characters[token] for token in tokens)

    def sizes(self):
        return np.array([(1, len(character.encode('utf-8', 'surrogatepass'))) for character in self.characters])

    def state(self):
        return self.characters

    @classmethod
    def from_state(cls, state):
        return cls(state)


class ByteTokenizer:
    """One token a byte of UTF-8: any text, 256 tokens, nothing to learn."""

    kind = 'byte'
    glue = ''
    boundary = staticmethod(anywhere)
    vocabulary = 256

    @classmethod
    def train(cls, text, vocabulary):
        del text, vocabulary
        return cls()

    def encode(self, text):
        return np.frombuffer(text.encode('utf-8'), np.uint8).astype(np.int32)

    def decode(self, tokens):
        return bytes(int(token) for token in tokens).decode('utf-8', errors='replace')

    def sizes(self):
        return np.array([(byte not in CONTINUATION, 1) for byte in range(256)], int)

    def state(self):
        return None

    @classmethod
    def from_state(cls, state):
        del state
        return cls()


class BPETokenizer:
    """Byte-level byte pairs (Sennrich et al. 2016) through the `tokenizers` library. Text is cut at line ends first."""

    kind = 'bpe'
    glue = ''
    boundary = staticmethod(at_line_end)

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    @classmethod
    def train(cls, text, vocabulary):
        import tokenizers

        tokenizer, alphabet = _of_bytes(tokenizers.models.BPE())
        if vocabulary < len(alphabet):
            raise FieldError('data.vocabulary', vocabulary, f'byte pairs start from {len(alphabet)} bytes; ask for more')
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(cls._lines(text), trainer)
        return cls(tokenizer)

    @classmethod
    def _lines(cls, text):
        for part in parts(text, cls.boundary):
            yield from part.splitlines(keepends=True)

    @property
    def vocabulary(self):
        return self._tokenizer.get_vocab_size()

    def encode(self, text):
        lines = self._tokenizer.encode_batch_fast(text.splitlines(keepends=True))
        return np.concatenate([np.zeros(0, np.int32), *(np.asarray(line.ids, np.int32) for line in lines)])

    def decode(self, tokens):
        return self._tokenizer.decode([int(token) for token in tokens])

    def sizes(self):
        # A token is written with one letter for every byte. A continuation byte's is what ends chr(byte): its UTF-8 is
        # C2 and that byte.
        written = self._tokenizer.pre_tokenizer.pre_tokenize_str
        inner = {written(chr(byte))[0][0][-1] for byte in CONTINUATION}
        tokens = [self._tokenizer.id_to_token(token) for token in range(self.vocabulary)]
        return np.array([(sum(letter not in inner for letter in token), len(token)) for token in tokens])

    def state(self):
        return json.loads(self._tokenizer.to_str())

    @classmethod
    def from_state(cls, state):
        import tokenizers

        return cls(tokenizers.Tokenizer.from_str(json.dumps(state)))


class UnigramTokenizer(BPETokenizer):
    """A text is cut into its likeliest pieces, argmax P(x_1) ... P(x_n), and those are learned that make the text likely by EM,
    with fewer of them in every round (Kudo 2018). Through the `tokenizers` library.

    What is cut are the bytes of a word and of the blank before it, as for byte pairs. All 256 bytes are pieces: there is no
    unknown character, and none is lost.
    """

    kind = 'unigram'

    @classmethod
    def train(cls, text, vocabulary):
        import tokenizers

        tokenizer, alphabet = _of_bytes(tokenizers.models.Unigram())
        if vocabulary <= len(alphabet):
            raise FieldError('data.vocabulary', vocabulary, f'pieces are {len(alphabet)} bytes and longer ones; ask for more')
        trainer = tokenizers.trainers.UnigramTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator((line[start:start + LONGEST_WORD] for line in cls._lines(text or '\n')
                                       for start in range(0, len(line), LONGEST_WORD)), trainer)
        pieces = json.loads(tokenizer.to_str())['model']['vocab']
        return cls(_of_bytes(tokenizers.models.Unigram(_settled(pieces)))[0])


class SymbolTokenizer:
    """Characters or words (what blanks separate), the most frequent ones; made by `symbols`.

    symbols: of every token. Token 0 is padding and stands for nothing, token 1 is any symbol that is not known. line_ends: a
    line end is the word LINE_END, and not just a blank.
    """

    kind = 'symbol'
    PADDING, UNKNOWN = 0, 1

    def __init__(self, unit, symbols, lowercase=False, line_ends=False):
        self.unit, self.symbols, self.lowercase = unit, ('', '\N{REPLACEMENT CHARACTER}', *symbols), lowercase
        self.line_ends, self.boundary = line_ends, anywhere if unit == 'char' else at_blank
        self._tokens = {symbol: token for token, symbol in enumerate(symbols, 2)}

    @classmethod
    def train(cls, text, vocabulary):
        """Words of a text, for a language model."""
        return symbols('word', parts(text, at_blank), vocabulary, line_ends=True)

    @property
    def vocabulary(self):
        return len(self.symbols)

    @property
    def glue(self):
        """What stands between two texts that are put together."""
        return '' if self.unit == 'char' else ' '

    def encode(self, text):
        """Tokens of a text, or of a tuple of symbols."""
        found = _split(text, self.unit, self.lowercase, self.line_ends)
        return np.array([self._tokens.get(symbol, self.UNKNOWN) for symbol in found], np.int32)

    def decode(self, tokens):
        text = self.glue.join(self.symbols[token] for token in tokens if token != self.PADDING)
        return re.sub(f' ?{LINE_END} ?', '\n', text) if self.line_ends else text

    def sizes(self):
        """None: what an unknown symbol stands for has no size."""

    def unknown_share(self, inputs):
        """The part of all symbols of the inputs that is not known."""
        tokens = np.concatenate([np.zeros(0, np.int32), *map(self.encode, inputs)])
        return float(np.mean(tokens == self.UNKNOWN)) if len(tokens) else 0.0

    def state(self):
        return dict(unit=self.unit, symbols=self.symbols[2:], lowercase=self.lowercase,
                    **(dict(line_ends=True) if self.line_ends else {}))

    @classmethod
    def from_state(cls, state):
        return cls(**state)


def symbols(unit, inputs, vocabulary=0, lowercase=False, line_ends=False):
    """A tokenizer for labelled sequences: unit 'char' or 'word', inputs texts or tuples of symbols.

    At most `vocabulary` tokens, padding and unknown among them (0: as many as there are symbols), in the order of how
    often the symbols occur, those that are equal in that by their code points. lowercase: capitals become small letters.
    line_ends: see `SymbolTokenizer`.
    """
    if 0 < vocabulary < 3:
        raise FieldError('data.vocabulary', vocabulary, 'padding and unknown symbols take two; ask for more')
    counts = collections.Counter()
    for text in inputs:
        counts.update(_split(text, unit, lowercase, line_ends))
    ordered = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
    return SymbolTokenizer(unit, ordered[:vocabulary - 2] if vocabulary else ordered, lowercase, line_ends)


KINDS = {'char': CharTokenizer, 'byte': ByteTokenizer, 'bpe': BPETokenizer, 'unigram': UnigramTokenizer, 'word': SymbolTokenizer,
         'pretrained': PretrainedTokenizer}  # config.data.tokenizer


STATES = {cls.kind: cls for cls in KINDS.values()}  # by the name that is saved


def train(kind, text, vocabulary=0):
    """A tokenizer of `kind` for a text, whole or in chunks; `vocabulary` is the number of tokens that pieces and words may use."""
    if kind not in KINDS:
        raise FieldError('data.tokenizer', kind, f'no such tokenizer; {suggestion(kind, KINDS)}')
    return KINDS[kind].train(text, vocabulary)


def name_of(tokenizer):
    """What `config.data.tokenizer` calls it."""
    return getattr(tokenizer, 'unit', tokenizer.kind)


def dumps(tokenizer):
    """The tokenizer as JSON text."""
    return json.dumps(dict(kind=tokenizer.kind, state=tokenizer.state()))


def loads(text):
    """The tokenizer that `dumps` wrote."""
    saved = json.loads(text)
    return STATES[saved['kind']].from_state(saved['state'])


def _of_bytes(model):
    """(a tokenizer of the library that cuts text into words and writes them with a letter for every byte, those letters)."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer, tokenizers.pre_tokenizers.ByteLevel.alphabet()


def _settled(pieces):
    """[(piece, log P)], the likeliest first, the same in every process; processes that train together must agree.

    The library adds its counts in an order that differs from process to process, which moves the last digits, and numbers the
    bytes that it did without, by chance, from the lowest log P upwards in steps of 0.0001.
    """
    lowest = min(score for _, score in pieces)
    scores = {piece: round(score if score > lowest + 256 * 0.0001 else lowest, 4) for piece, score in pieces}
    return sorted(scores.items(), key=lambda found: (-found[1], found[0]))


def _code_points(text):
    return np.frombuffer(text.encode('utf-32-le'), np.uint32)


def _split(text, unit, lowercase, line_ends=False):
    """The symbols of a text. Capitals change one by one: as a whole a text could get longer, and labels go astray."""
    if line_ends:
        text = text.replace('\n', f' {LINE_END} ')
    found = text if not isinstance(text, str) else text if unit == 'char' else text.split()
    return [symbol.lower() for symbol in found] if lowercase else list(found)
