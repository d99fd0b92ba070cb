"""Sets by name, which need no file: those that come with seqjax, and those that an experiment file registers.

    @data.SOURCES.register('discs')
    @data.made_for('class')
    def discs(task):
        return data.Examples(Discs(0, 1000), Discs(1000, 1100), [], 'discs on a canvas')
"""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

from seqjax.data.embedded.addition import addition_examples
from seqjax.data.embedded.digit_scenes import digit_scene_examples
from seqjax.data.embedded.digits import digit_examples
from seqjax.data.embedded.language_names import language_name_examples
from seqjax.data.embedded.mackey_glass import mackey_glass_examples
from seqjax.data.embedded.moving_digits import moving_digit_examples, moving_digit_videos
from seqjax.data.embedded.peptides import peptide_examples
from seqjax.data.embedded.python_docs import python_doc_examples
from seqjax.data.embedded.python_text import python_text
from seqjax.data.embedded.python_tokens import python_token_examples
from seqjax.data.embedded.reversal import reversal_examples
from seqjax.data.embedded.reviews import review_examples
from seqjax.data.embedded.synthetic import Synthetic
from seqjax.registry import Registry

PARTS = dict(held_out='held_out', split_seed='seed')
OF_TEXT = ('text', 'masked', 'spans')  # kinds of data whose targets are in the text itself


@dataclasses.dataclass(frozen=True)
class Made:
    """How a set is made: `make(task, argument=value, ...)`, with the name of the task.

    Args:
        make: returns a text (`str`, `Text` of parts, or a lazy `TextSource`) for kinds of text, `Examples` for labelled sequences, images and
            pairs, or a `Dataset` that makes its batches itself.
        targets: what it has to be learned (see `Task.takes`), the usual one first.
        reads: the arguments of `make` that `config.data` gives: {field: argument}.
        endless: its rows are generated without end, and there is nothing of them to hold out.
        of_images: its inputs are images or videos, and the fields of `config.data` that are about them have a meaning.
    """

    make: Callable[..., Any]
    targets: tuple[str, ...]
    reads: Mapping[str, str] = dataclasses.field(default_factory=dict)
    endless: bool = False
    of_images: bool = False

    def __call__(self, task: str, options: Any) -> Any:
        return self.make(task, **{argument: options[field] for field, argument in self.reads.items()})

    def teaches(self, task: Any) -> bool:
        """Whether a task, a class of `tasks.TASKS`, can be learned from it."""
        return task.takes() in self.targets and (self.of_images or not task.of_images)


def made_for(*targets: str, of_images: bool = False, **reads: str) -> Callable[[Callable[..., Any]], Made]:
    """A decorator: the function makes a set with these targets; reads: fields of `config.data` as its arguments."""
    return lambda make: Made(make, targets, reads, of_images=of_images)


def _generated(name):
    return lambda task, length, held_out_rows: Synthetic(name, length, held_out_rows)


_ROWS = dict(sequence_length='length', held_out_rows='held_out_rows')
SOURCES = Registry('source', {
    'python': Made(python_text, OF_TEXT, dict(held_out='held_out')),
    'python_tokens': Made(python_token_examples, ('labels',), PARTS),
    'cldr': Made(language_name_examples, ('class', 'pairs'), PARTS),
    'peptides': Made(peptide_examples, ('number', 'labels'), PARTS),
    'reviews': Made(review_examples, ('class',), PARTS),
    'python_docs': Made(python_doc_examples, ('class',), dict(split_seed='seed')),
    'digits': Made(digit_examples, ('class',), PARTS, of_images=True),
    'digit_scenes': Made(digit_scene_examples, ('captions',), PARTS, of_images=True),
    'moving_digits': Made(moving_digit_examples, ('class', 'labels'), PARTS),
    'mackey_glass': Made(mackey_glass_examples, ('series',), PARTS),
    'moving_digit_videos': Made(moving_digit_videos, ('class', 'labels'), PARTS, of_images=True),
    'reverse': Made(reversal_examples, ('pairs',), dict(split_seed='seed', sequence_length='length')),
    'addition': Made(addition_examples, ('pairs',), dict(split_seed='seed')),
    'adding': Made(_generated('adding'), ('number',), _ROWS, endless=True),
    'copy': Made(_generated('copy'), ('text',), _ROWS, endless=True),
})


def is_endless(name: str) -> bool:
    """Whether a source is generated without end; false for files."""
    return name in SOURCES and SOURCES[name].endless


def names_of(*targets: str) -> str:
    """The names of the sets that have one of these targets, for sentences."""
    return ', '.join(name for name, made in SOURCES.items() if set(targets) & set(made.targets))


def names_for(task: Any) -> str:
    """The names of the sets that a task can be learned from, for sentences."""
    return ', '.join(name for name, made in SOURCES.items() if made.teaches(task))
