"""Text to token numbers and back: characters, bytes, or byte pairs learned from the text.

A tokenizer is saved with its run as one JSON file, and `load` reads any kind back.
"""

import json

import numpy as np

from seqjax.errors import FieldError, UserError, suggestion


class CharTokenizer:
    """One token a character; the vocabulary is the characters of the text, in the order of their code points."""

    kind = 'char'

    def __init__(self, characters):
        self.characters = characters
        self._codes = _code_points(characters)

    @classmethod
    def train(cls, text, vocabulary):
        del vocabulary  # the text decides
        return cls(''.join(sorted(set(text))))

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

    def state(self):
        return self.characters

    @classmethod
    def from_state(cls, state):
        return cls(state)


class ByteTokenizer:
    """One token a byte of UTF-8: any text, 256 tokens, nothing to learn."""

    kind = 'byte'
    vocabulary = 256

    @classmethod
    def train(cls, text, vocabulary):
        del text, vocabulary
        return cls()

    def encode(self, text):
        return np.frombuffer(text.encode('utf-8'), np.uint8).astype(np.int32)

    def decode(self, tokens):
        return bytes(int(token) for token in tokens).decode('utf-8', errors='replace')

    def state(self):
        return None

    @classmethod
    def from_state(cls, state):
        del state
        return cls()


class BPETokenizer:
    """Byte-level byte pairs (Sennrich et al. 2016) through the `tokenizers` library. Text is cut at line ends first."""

    kind = 'bpe'

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    @classmethod
    def train(cls, text, vocabulary):
        import tokenizers

        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        if vocabulary < len(alphabet):
            raise FieldError('data.vocabulary', vocabulary, f'byte pairs start from {len(alphabet)} bytes; ask for more')
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
        return cls(tokenizer)

    @property
    def vocabulary(self):
        return self._tokenizer.get_vocab_size()

    def encode(self, text):
        lines = self._tokenizer.encode_batch_fast(text.splitlines(keepends=True))
        return np.concatenate([np.zeros(0, np.int32), *(np.asarray(line.ids, np.int32) for line in lines)])

    def decode(self, tokens):
        return self._tokenizer.decode([int(token) for token in tokens])

    def state(self):
        return json.loads(self._tokenizer.to_str())

    @classmethod
    def from_state(cls, state):
        import tokenizers

        return cls(tokenizers.Tokenizer.from_str(json.dumps(state)))


KINDS = {cls.kind: cls for cls in (CharTokenizer, ByteTokenizer, BPETokenizer)}


def train(kind, text, vocabulary=0):
    """A tokenizer of `kind` for `text`; `vocabulary` is the number of tokens that byte pairs may use."""
    if kind not in KINDS:
        raise FieldError('data.tokenizer', kind, f'no such tokenizer; {suggestion(kind, KINDS)}')
    return KINDS[kind].train(text, vocabulary)


def dumps(tokenizer):
    """The tokenizer as JSON text."""
    return json.dumps(dict(kind=tokenizer.kind, state=tokenizer.state()))


def loads(text):
    """The tokenizer that `dumps` wrote."""
    saved = json.loads(text)
    return KINDS[saved['kind']].from_state(saved['state'])


def _code_points(text):
    return np.frombuffer(text.encode('utf-32-le'), np.uint32)
