"""How labelled sequences become numbers, and answers become names again. Saved with a run as one JSON file."""

import dataclasses
import json
from typing import Any

import numpy as np

from seqjax.data import tokenizers
from seqjax.data.word_vectors import load_word_vectors
from seqjax.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Encoding:
    """What is decided by the training examples alone.

    tokenizer: of texts or words; None where inputs are frames. spelling: of the characters of words, or None; at most
    spelling_length of a word are seen. classes: their names. offset, scale: mean and standard deviation of numbers.
    table: pretrained vectors of the tokens [V, D], or None.
    """

    task: str
    tokenizer: Any = None
    spelling: Any = None
    spelling_length: int = 0
    classes: tuple[str, ...] = ()
    offset: float = 0.0
    scale: float = 1.0
    table: Any = None

    def inputs(self, sequence):
        """A text, words or frames -> tokens [T], frames [T, D], or dict(words=[T], characters=[T, C])."""
        if self.tokenizer is None:
            return np.asarray(sequence, np.float32)
        tokens = self.tokenizer.encode(sequence) + self._shift
        if self.spelling is None:
            return tokens
        characters = np.zeros((len(tokens), self.spelling_length), np.int32)
        words = sequence.split() if isinstance(sequence, str) else sequence
        for place, word in zip(characters, words):
            spelled = self.spelling.encode(word[:self.spelling_length])
            place[:len(spelled)] = spelled
        return dict(words=tokens, characters=characters)

    def row(self, example):
        """dict(inputs, targets, weights) of one example: a target of its own for every step, or one for all."""
        inputs = self.inputs(example.inputs)
        if self.task == 'regression':
            return dict(inputs=inputs, targets=np.float32(example.target), weights=np.float32(1))
        number = {name: i for i, name in enumerate(self.classes)}
        if self.task == 'classification':
            return dict(inputs=inputs, targets=np.int32(number[example.target]), weights=np.float32(1))
        return dict(inputs=inputs, targets=np.array([number.get(label, 0) for label in example.target], np.int32),
                    weights=np.array([label is not None for label in example.target], np.float32))

    @property
    def _shift(self):
        """Models take token 0 for padding and 1 for unknown: bytes and byte pairs, which have neither, move up by two."""
        return 0 if isinstance(self.tokenizer, tokenizers.SymbolTokenizer) else 2

    def for_model(self):
        """What the data decides about a model."""
        return dict(vocabulary=self.tokenizer and self.tokenizer.vocabulary + self._shift, outputs=len(self.classes) or 1,
                    per_step=self.task == 'tagging', characters=self.spelling and self.spelling.vocabulary, table=self.table)

    def for_task(self):
        """What the data decides about a task."""
        return dict(classes=self.classes, offset=self.offset, scale=self.scale)

    def dumps(self):
        saved = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for name in ('tokenizer', 'spelling'):
            saved[name] = saved[name] and tokenizers.dumps(saved[name])
        saved['table'] = None if self.table is None else self.table.shape  # the vectors themselves are parameters by now
        return json.dumps(saved, ensure_ascii=False) + '\n'


def loads(text):
    """The encoding that `dumps` wrote."""
    saved = json.loads(text)
    for name in ('tokenizer', 'spelling'):
        saved[name] = saved[name] and tokenizers.loads(saved[name])
    saved['table'] = saved['table'] and np.zeros(saved['table'], np.float32)
    return Encoding(**{**saved, 'classes': tuple(saved['classes'])})


def learn(task, examples, options):
    """The encoding that training `examples` give; options: `config.data`."""
    sequences = [example.inputs for example in examples]
    spelling = None
    if options.spelling:
        _check_spelling(sequences, options)
        spelling = tokenizers.symbols('char', [word for words in sequences for word in _words(words)], 0)
    tokenizer = _tokenizer(task, sequences, options)
    table = load_word_vectors(options.vectors, tokenizer.symbols)[0] if options.vectors else None
    same = dict(task=task, tokenizer=tokenizer, spelling=spelling, spelling_length=options.spelling, table=table)
    if task == 'regression':
        targets = np.array([example.target for example in examples], np.float64)
        return Encoding(**same, offset=float(targets.mean()), scale=float(targets.std()) or 1.0)
    labels = [example.target for example in examples]
    names = {label for row in labels for label in row if label is not None} if task == 'tagging' else set(labels)
    if len(names) < 2:
        raise FieldError('data.source', options.source,
                         f'has one class, {", ".join(map(repr, names))}; there is nothing to tell apart')
    return Encoding(**same, classes=tuple(sorted(names)))


def with_vectors(saved, options):
    """The saved encoding with the vectors themselves, of which it keeps the shape: a run may have no parameters yet."""
    if saved.table is None:
        return saved
    return dataclasses.replace(saved, table=load_word_vectors(options.vectors, saved.tokenizer.symbols)[0])


def _tokenizer(task, sequences, options):
    kind = options.tokenizer
    if isinstance(sequences[0], np.ndarray):
        return None
    if isinstance(sequences[0], tuple) and kind != 'word':
        raise FieldError('data.tokenizer', kind, "the set consists of words; write 'word'")
    if task == 'tagging' and isinstance(sequences[0], str) and kind != 'char':
        raise FieldError('data.tokenizer', kind, "the set has a label for every character; write 'char'")
    if options.vectors and kind != 'word':
        raise FieldError('data.vectors', options.vectors, f"are of words, and data.tokenizer={kind!r}; write 'word'")
    if kind in ('char', 'word'):
        return tokenizers.symbols(kind, sequences, options.vocabulary if kind == 'word' else 0, options.lowercase)
    return tokenizers.train(kind, '\n'.join(sequences), options.vocabulary)


def _check_spelling(sequences, options):
    if options.tokenizer != 'word' or isinstance(sequences[0], np.ndarray):
        raise FieldError('data.spelling', options.spelling, "needs words; set it to 0, or data.tokenizer to 'word'")


def _words(sequence):
    return sequence.split() if isinstance(sequence, str) else sequence
