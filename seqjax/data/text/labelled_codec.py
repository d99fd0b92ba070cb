"""The codec of labelled and of masked text: sequences become numbers, and predictions become names again.

    token    0         1         2       3     4      ...
    is       padding   unknown   what the tokenizer knows
    marked   padding   unknown   START   END   MASK   what the tokenizer knows
"""

from collections.abc import Iterable
import dataclasses
import functools
import json
import random
from typing import Any, Self

import numpy as np

from seqjax.data.batches.ragged import length_of
from seqjax.data.images.decoding import pixels_of
from seqjax.data.readers.examples import TextPair
from seqjax.data.readers.lines import Malformed
from seqjax.data.readers.numbers import frames_of
from seqjax.data.source import targets_of
from seqjax.data.text import tokenizers
from seqjax.data.text.codec import NAMES, Codec, WithSpecialTokens, learn_tokenizer
from seqjax.data.text.marking import marked, shortened
from seqjax.data.text.word_vectors import load_word_vectors
from seqjax.errors import FieldError
from seqjax.special_tokens import MARKED_COUNT, Marks
from seqjax.tasks import TASKS


@dataclasses.dataclass(frozen=True)
class LabelledCodec(WithSpecialTokens, Codec):
    """Decided by the training examples alone.

    task: its name; '' where its targets are still to be learned: `with_answers`. tokenizer: of texts or words; None where inputs are frames. spelling: of the characters of words, or None;
    at most spelling_length of a word are seen. classes: their names. offset, scale: mean and standard deviation of numbers.
    table: pretrained vectors of the tokens [V, D], or None. marked: rows have special tokens around texts, see `data.marking`,
    and none has more than `longest` positions. pairs: a row has two texts.
    mean, deviation: of every channel of images or feature of frames, by which inputs are normalised; () where they are not.
    Frames are normalised here, pixels of 8 bits on the device (`tasks.images`). images_as: '', or how an image becomes a
    sequence: 'rows', 'pixels' or 'permuted', by pixel_seed. shape: of an image [H, W, C], or () where inputs are something
    else; image_size: that new ones are resized to, or 0. features: of a time step of frames.
    """

    kind = 'labelled'
    task: str
    tokenizer: Any = None
    spelling: Any = None
    spelling_length: int = 0
    classes: tuple[str, ...] = ()
    offset: float = 0.0
    scale: float = 1.0
    table: Any = None
    marked: bool = False
    pairs: bool = False
    longest: int = 0
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    images_as: str = ''
    pixel_seed: int = 0
    shape: tuple[int, ...] = ()
    image_size: int = 0
    features: int = 0

    @property
    def special(self) -> tuple[str, ...]:
        return NAMES[:MARKED_COUNT if self.marked else 2]

    @property
    def vocabulary(self) -> int | None:
        """The number of tokens; None where inputs are frames."""
        return self.tokenizer and self.size

    @property
    def marks(self):
        """The numbers of the special tokens."""
        return getattr(self.tokenizer, 'marks', None) or Marks()

    @property
    def reads_words(self):
        """Whether a line that is to be tagged is split at its blanks."""
        return tokenizers.name_of(self.tokenizer) != 'char'

    @property
    def of_images(self) -> bool:
        """Whether inputs are images or videos."""
        return self.tokenizer is None and not self.features

    def tokens(self, sequence: str | tuple[str, ...]) -> np.ndarray:
        """The tokens of a text or of words [n], without marks."""
        return np.concatenate([np.zeros(0, np.int32), *map(super().tokens, self._parts(sequence))])

    def name(self, token: int) -> str:
        """The symbol or the piece of a token; the name of a special one."""
        names = dict(zip(self.marks[:len(self.special)], NAMES))
        return names.get(token) or self.tokenizer.decode([token - self._shift])

    def text(self, tokens: Iterable[int]) -> str:
        """The text of tokens, without special ones."""
        special = self.marks[:len(self.special)]
        return self.tokenizer.decode([token - self._shift for token in map(int, tokens) if token not in special])

    def inputs(self, sequence):
        """A text, words, frames, an image or two texts -> tokens [T], frames [T, D], an image [H, W, C], or dict(words=[T],
        characters=[T, C])."""
        if self.tokenizer is None:
            return self._numbers(np.asarray(sequence))
        if self.marked:
            texts = (sequence.first, sequence.second) if self.pairs else (sequence,)
            return marked(*map(self.tokens, texts), marks=self.marks)
        tokens = self.tokens(sequence)
        if self.spelling is None:
            return tokens
        characters = np.zeros((len(tokens), self.spelling_length), np.int32)
        words = sequence.split() if isinstance(sequence, str) else sequence
        for place, word in zip(characters, words):
            spelled = self.spelling.encode(word[:self.spelling_length])
            place[:len(spelled)] = spelled
        return dict(words=tokens, characters=characters)

    def places(self, sequence):
        """Which steps have the labels of a sequence, one for each: all but the marks, and of a word in pieces the first."""
        if self.tokenizer is None or self._own:
            return np.arange(len(sequence)) + self.marked
        sizes = [len(self.tokenizer.encode(part)) for part in self._parts(sequence)]
        return np.cumsum([0, *sizes])[:-1] + self.marked

    def row(self, example):
        """dict(inputs, targets, weights) of one example: a target of its own for every step, or one for all."""
        inputs = self.inputs(example.inputs)
        if self._task.target == 'number':
            return dict(inputs=inputs, targets=np.float32(example.target), weights=np.float32(example.weight))
        number = {name: i for i, name in enumerate(self.classes)}
        if self._task.target == 'class':
            return dict(inputs=inputs, targets=np.int32(number[example.target]), weights=np.float32(example.weight))
        steps = length_of(dict(inputs=inputs))
        targets, weights, places = np.zeros(steps, np.int32), np.zeros(steps, np.float32), self.places(example.inputs)
        targets[places] = [number.get(label, 0) for label in example.target]
        weights[places] = [label is not None for label in example.target]
        return dict(inputs=inputs, targets=targets, weights=weights)

    def sequence(self, line, words=False):
        """(the text, words or two texts that a line has, None), or (None, why it has none). words: where they are read.

        Where inputs are images, the line is the path of one; where they are frames, it has them as lists of JSON.
        """
        if self.tokenizer is None:
            try:
                return (self._image(line) if self.shape else self._frames(line)), None
            except Malformed as problem:
                return None, str(problem)
        if self.pairs:
            first, tab, second = line.partition('\t')
            if not tab:
                return None, 'no TAB between two texts'
            return (TextPair(first, second), None) if first.strip() and second.strip() else (None, 'an empty text')
        sequence = tuple(line.split()) if words and self.reads_words else line
        return (sequence, None) if len(self.tokens(sequence)) else (None, 'an empty line')

    def around(self, hidden, line):
        """The pieces of a line between its masks, each written as `hidden`."""
        *before, last = line.split(hidden)
        if isinstance(self.tokenizer, tokenizers.BPETokenizer):  # byte pairs of a word have the blank before it: so has a mask
            before = [piece.removesuffix(' ') for piece in before]
        return [piece.strip() if self.tokenizer.glue else piece for piece in (*before, last)]

    def with_masks(self, pieces):
        """The tokens of pieces with MASK between them, and the other marks [n]."""
        mask = np.array([self.marks.mask], np.int32)
        parts = [tokens for piece in pieces for tokens in (mask, self.tokens(piece))][1:]
        return marked(np.concatenate(parts), marks=self.marks)

    def fitted(self, row):
        """The row, without what a marked one has too much of."""
        return shortened(row, self.longest, self.marks.end) if self.longest else row

    def for_model(self):
        """What the data decides about a model."""
        return dict(vocabulary=self.vocabulary, **self._task.head(self.classes), table=self.table,
                    characters=self.spelling and self.spelling.vocabulary,
                    **(dict(context_length=self.longest, end=self.marks.end) if self.marked else {}))

    def for_task(self):
        """What the data decides about a task."""
        normal = dict(mean=self.mean, deviation=self.deviation) if self.mean else {}
        return dict(classes=self.classes, offset=self.offset, scale=self.scale, **normal)

    def as_options(self):
        """{field of `config.data`: value}: what a run that reads like this says of it."""
        symbols = dict(lowercase=self.tokenizer.lowercase) if self._own else {}
        if self.tokenizer is None:  # images, or frames, which are normalised whatever the option says
            return dict(normalise=bool(self.mean)) if self.of_images else {}
        return dict(tokenizer=tokenizers.name_of(self.tokenizer), special_tokens=self.marked, characters_per_word=self.spelling_length,
                    **symbols, **(dict(word_vectors='') if self.table is None else {}))

    def without_answers(self) -> Self:
        return dataclasses.replace(self, task='', classes=())

    def state(self) -> dict[str, Any]:
        saved = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ('tokenizer', 'spelling'):
            saved[name] = saved[name] and tokenizers.dumps(saved[name])
        return {**saved, 'table': None if self.table is None else self.table.shape}  # its vectors are parameters by now

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        fields = {name: state[name] for name in (field.name for field in dataclasses.fields(cls)) if name in state}
        for name in ('tokenizer', 'spelling'):
            fields[name] = state[name] and tokenizers.loads(state[name])
        fields.update({name: tuple(fields.get(name, ())) for name in ('mean', 'deviation', 'shape')})
        table = state['table'] and np.zeros(state['table'], np.float32)
        return cls(**{**fields, 'table': table, 'classes': tuple(state['classes'])})

    @property
    def _task(self):
        return TASKS[self.task]

    def _numbers(self, inputs):
        """Frames normalised; pixels as they are, or as a sequence."""
        if inputs.dtype != np.uint8 or inputs.ndim < 3:
            inputs = inputs.astype(np.float32)
        if inputs.ndim == 3 and self.images_as:
            H, W, C = inputs.shape
            inputs = inputs.reshape((H, W * C) if self.images_as == 'rows' else (H * W, C))
            inputs = inputs[_pixel_order(self.pixel_seed, H * W)] if self.images_as == 'permuted' else inputs
        if inputs.ndim == 2 and inputs.dtype != np.uint8 and self.mean:
            return (inputs - np.float32(self.mean)) / np.float32(self.deviation)
        return inputs

    def _image(self, path):
        pixels = pixels_of(path, self.image_size, self.shape[-1])
        if pixels.shape != self.shape:
            shown = [' x '.join(map(str, shape[:2])) for shape in (pixels.shape, self.shape)]
            raise Malformed('has another size than the images of the run', f'{shown[0]} pixels, and they have {shown[1]}')
        return pixels

    def _frames(self, line):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise Malformed('is no JSON') from None
        if not isinstance(value, list) or not value:
            raise Malformed('is no list of numbers')
        frames = frames_of(value)
        if frames.shape[1] != self.features:
            raise Malformed('has another number of features than the run', f'{frames.shape[1]} and {self.features}')
        return frames

    def _parts(self, sequence):
        """What is tokenized by itself: words in pieces one by one, each with the blank before it; all of anything else."""
        if self._own or isinstance(sequence, str):
            return [sequence]
        return [f' {word}' if i else word for i, word in enumerate(sequence)]


def learn(task, examples, options):
    """The codec that training `examples` give; options: `config.data`."""
    _check_sequences(task, examples[0].inputs, options)
    tokenizer, spelling = None, None
    if not isinstance(examples[0].inputs, np.ndarray):
        sequences = [text for example in examples for text in _texts(example.inputs)]
        tokenizer = learn_tokenizer(options, sequences, lowercase=options.lowercase)
    if options.characters_per_word:
        spelling = tokenizers.symbols('char', [word for words in sequences for word in _words(words)], 0)
    table = load_word_vectors(options.word_vectors, tokenizer.symbols)[0] if options.word_vectors else None
    return with_answers(LabelledCodec('', tokenizer, spelling, options.characters_per_word, table=table, marked=options.special_tokens), task,
                        examples, options)


def relearn(codec, task, examples, options):
    """An inherited codec (see `data.inherited`) with the targets of these training examples."""
    _check_sequences(task, examples[0].inputs, options)
    return with_answers(with_vectors(codec, options), task, examples, options)


def with_answers(codec, task, examples, options):
    """The codec with classes, or mean and deviation, from training examples."""
    codec = dataclasses.replace(codec, task=task, pairs=isinstance(examples[0].inputs, TextPair))
    if TASKS[task].target == 'number':
        targets = np.array(targets_of(examples), np.float64)
        return dataclasses.replace(codec, offset=float(targets.mean()), scale=float(targets.std()) or 1.0)
    labels = targets_of(examples)
    names = {label for row in labels for label in row if label is not None} if TASKS[task].per_step else set(labels)
    if len(names) < 2:
        raise FieldError('data.source', options.source,
                         f'has one class, {", ".join(map(repr, names))}; there is nothing to tell apart')
    return dataclasses.replace(codec, classes=tuple(sorted(names)))


def with_vectors(saved, options):
    """The saved codec with the vectors themselves, of which it keeps the shape: a run may have no parameters yet.

    A run that inherits them does, and needs no file.
    """
    if saved.table is None or not options.word_vectors:
        return saved
    return dataclasses.replace(saved, table=load_word_vectors(options.word_vectors, saved.tokenizer.symbols)[0])


@functools.cache
def _pixel_order(seed, count):
    draw = random.Random(seed).random  # its numbers are the same in every version of Python
    return np.array(sorted(range(count), key=[draw() for _ in range(count)].__getitem__))


def _texts(sequence):
    return (sequence.first, sequence.second) if isinstance(sequence, TextPair) else (sequence,)


def _words(sequence):
    return sequence.split() if isinstance(sequence, str) else sequence


# ------------------------------------------------------------------------------------------------ what cannot be

def _check_sequences(task, sequence, options):
    """Sequences of this kind must be ones that the options can read. sequence: one of them."""
    kind, frames = options.tokenizer, isinstance(sequence, np.ndarray)
    if options.special_tokens and frames:
        raise FieldError('data.special_tokens', True, 'puts marks around texts, and the set has frames; set it to false')
    if isinstance(sequence, TextPair) and not options.special_tokens:
        raise FieldError('data.special_tokens', False, 'the set has two texts a row, which marks keep apart; set it to true')
    in_pieces = options.special_tokens and kind in ('byte', 'bpe', 'unigram', 'pretrained')
    if isinstance(sequence, tuple) and kind != 'word' and not in_pieces:
        raise FieldError('data.tokenizer', kind, "the set consists of words; write 'word'")
    if TASKS[task].per_step and isinstance(sequence, str) and kind != 'char':
        raise FieldError('data.tokenizer', kind, "the set has a label for every character; write 'char'")
    if options.word_vectors and kind != 'word':
        raise FieldError('data.word_vectors', options.word_vectors, f"are of words, and data.tokenizer={kind!r}; write 'word'")
    if options.characters_per_word and (kind != 'word' or frames):
        raise FieldError('data.characters_per_word', options.characters_per_word, "needs words; set it to 0, or data.tokenizer to 'word'")
    for field in ('word_vectors', 'characters_per_word'):
        value = getattr(options, field)
        if value and options.special_tokens:
            raise FieldError(f'data.{field}', value, 'goes with rows without marks, and data.special_tokens=True; set it to '
                             f'{type(value)()!r}')
