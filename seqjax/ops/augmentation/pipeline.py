"""Augmentations by name, composed: `ops.Augmentation.parse('crop(padding=4), flip, mixup(alpha=0.2)')`.

    @ops.AUGMENTATIONS.register('noise')
    def noise(key, image, deviation: float = 0.1):
        return image + deviation * jax.random.normal(key, image.shape, image.dtype)

An augmentation is a pure function of a key and an image, float32 [H, W, C] from 0 to 1; its further arguments have defaults.
One that mixes rows is marked by `mixes`.
"""

import ast
import dataclasses
import functools
import inspect
import math
from typing import Any, Self

import jax

from seqjax.errors import FieldError, suggestion
from seqjax.ops.augmentation import mixing, random, rand_augment
from seqjax.registry import Registry

AUGMENTATIONS = Registry('augmentation', {
    'crop': random.crop, 'resized_crop': random.resized_crop, 'flip': random.flip, 'colour_jitter': random.colour_jitter,
    'greyscale': random.greyscale, 'blur': random.blur, 'solarise': random.solarise, 'erase': random.erase,
    'rand_augment': rand_augment.rand_augment, 'mixup': mixing.mixup, 'cutmix': mixing.cutmix})


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Augmentations one after another; each has a key of its own.

    steps: ((name, ((argument, value), ...)), ...), names of AUGMENTATIONS.
    """

    steps: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of 'crop(padding=4), flip'; a FieldError says what is not understood."""
        refuse, form = functools.partial(FieldError, 'augment', text), "write names with arguments, as in 'crop(padding=4), flip'"
        try:
            written = ast.parse(f'[{text}]', mode='eval').body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise refuse(f'is no list of augmentations; {form}') from None
        if not isinstance(written, ast.List):
            raise refuse(f'is no list of augmentations; {form}')
        return cls(tuple(_step(refuse, node) for node in written.elts))

    @property
    def mixes(self) -> bool:
        """Whether targets become shares of classes."""
        return any(_mixes(AUGMENTATIONS[name]) for name, _ in self.steps)

    def __call__(self, keys: jax.Array, images: jax.Array, targets: jax.Array | None = None) -> tuple[jax.Array, jax.Array | None]:
        """(images, targets).

        Args:
            keys: one of every row [B].
            images: float32 [B, H, W, C], or videos [B, T, H, W, C], whose frames are all changed alike.
            targets: shares of classes [B, classes], where rows are mixed.
        """
        for place, (name, arguments) in enumerate(self.steps):
            own = jax.vmap(jax.random.fold_in, (0, None))(keys, place)
            change = functools.partial(AUGMENTATIONS[name], **dict(arguments))
            if _mixes(AUGMENTATIONS[name]):
                images, targets = change(own, images, targets)
            else:
                of_row = jax.vmap(change, (None, 0)) if images.ndim == 5 else change
                images = jax.vmap(of_row)(own, images)
        return images, targets


def problem_of(text: str) -> str:
    """What is wrong with a text of augmentations, or ''."""
    try:
        Augmentation.parse(text)
    except FieldError as error:
        return error.reason
    return ''


def _mixes(function):
    return getattr(function, 'mixes', False)


def _step(refuse, node):
    """(name, arguments) of 'crop(padding=4)' or 'crop'."""
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name):
        raise refuse(f"{ast.unparse(node)!r} is no augmentation; write names with arguments, as in 'crop(padding=4), flip'")
    name = call.func.id
    if name not in AUGMENTATIONS:
        raise refuse(f'there is no augmentation {name!r}; {suggestion(name, AUGMENTATIONS)}')
    function = AUGMENTATIONS[name]
    known = dict([*inspect.signature(function).parameters.items()][3 if _mixes(function) else 2:])
    takes = f'{name}({", ".join(map(str, known.values()))})' if known else f'{name} without arguments'
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise refuse(f"arguments have names, as in 'crop(padding=4)'; there is {takes}")
    arguments = {}
    for keyword in call.keywords:
        if keyword.arg not in known:
            raise refuse(f'{name} has no argument {keyword.arg!r}; there is {takes}')
        if keyword.arg in arguments:
            raise refuse(f'{name} has the argument {keyword.arg!r} twice')
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise refuse(f'{ast.unparse(keyword)!r} of {name} is no number; there is {takes}') from None
        if not _fits(keyword.arg, value, known[keyword.arg].default):
            raise refuse(f'{ast.unparse(keyword)!r} of {name} is not possible; there is {takes}')
        default = known[keyword.arg].default
        value = float(value) if isinstance(default, float) else value
        arguments[keyword.arg] = tuple(value) if isinstance(value, list) else value
    return name, tuple(arguments.items())


def _fits(name, value, default):
    """Whether a value is of the kind of the default: a truth, a number that is not negative, or a range of such numbers."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, tuple):
        return (isinstance(value, (tuple, list)) and len(value) == len(default) and all(map(_is_number, value))
                and list(value) == sorted(value) and (default[0] == 0 or value[0] > 0))
    if isinstance(default, int):
        return isinstance(value, int) and 0 <= value <= (rand_augment.BINS if name == 'magnitude' else value)
    if isinstance(default, float):
        return _is_number(value) and (name != 'p' or value <= 1) and (name != 'alpha' or value > 0)
    return True


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
