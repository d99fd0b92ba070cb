"""Logical names of the axes of arrays, 'batch', 'embed', 'heads', ...; not where they lie on a mesh.

Parameters and activations name their axes; `parallel.use_mesh` maps the names to a mesh by one
table. Without a mesh (one device, pmap, a notebook) all functions of this file do nothing.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import contextvars
from typing import Any, Protocol

import jax

# A logical name for every axis, or None; in `constrain` an ... for as many None as are missing.
Names = Sequence[Any]


class Layout(Protocol):
    """A mesh and a table of names, hashable; see `parallel.rules.TableLayout`."""

    def constrain(self, x: jax.Array, names: Names) -> jax.Array: ...

    def on_every_device(self, function: Callable, arguments: tuple, names: tuple, result: Names,
                        summed: str | None) -> jax.Array: ...


_layout: contextvars.ContextVar[Layout | None] = contextvars.ContextVar('layout', default=None)
_mapped: contextvars.ContextVar[str | None] = contextvars.ContextVar('mapped', default=None)


@contextlib.contextmanager
def use_layout(layout: Layout | None) -> Iterator[None]:
    """Lays out what is traced inside of it."""
    token = _layout.set(layout)
    try:
        yield
    finally:
        _layout.reset(token)


def current_layout() -> Layout | None:
    """That of the innermost `use_layout`: a static argument of functions that jit keeps traced."""
    return _layout.get()


def constrain(x: jax.Array, *names: Any) -> jax.Array:
    """x, laid out on the mesh by the names of its axes: `constrain(x, 'batch', None, 'embed')`.

    An axis with a name is cut as the table says, or whole where it says nothing. None leaves an axis
    to the compiler, and so does a name whose part of the mesh does not divide the axis. An axis of
    the mesh cuts one axis of an array, the first that names it: 'batch' takes those of fully sharded
    parameters, so that 'embed' is cut in parameters and whole in activations. '...' stands for all
    axes between. Without a mesh: x.
    """
    layout = current_layout()
    if layout is None:
        return x
    if ... in names:
        at = names.index(...)
        names = (*names[:at], *(None,) * (x.ndim - len(names) + 1), *names[at + 1:])
    return layout.constrain(x, names)


def on_every_device(function: Callable, arguments: tuple, names: tuple, result: Names, *,
                    summed: str | None = None) -> jax.Array:
    """function(*arguments), by every device on its part: for kernels and what else XLA cannot cut.

    Without a mesh: function(*arguments).

    Args:
        names: for each argument, a tree of arrays, the names of the axes of all of them, or a tree of
            such tuples. An axis without a name is whole, and so are all axes of a name where one of
            them cannot be cut.
        result: the names of what is returned.
        summed: where arguments are cut along this name, results are added up over it.
    """
    layout = current_layout()
    if layout is None:
        return function(*arguments)
    return layout.on_every_device(function, arguments, names, result, summed)


@contextlib.contextmanager
def use_mapped_axis(name: str | None) -> Iterator[None]:
    """What is traced inside of it has its share of the rows of a batch on each device of a mapped axis, as under `jax.pmap`."""
    token = _mapped.set(name)
    try:
        yield
    finally:
        _mapped.reset(token)


def mean_over_rows(x: jax.Array) -> jax.Array:
    """The mean of x [B, ..., C] over all axes but the last and over all rows of the global batch, whatever holds them: [C].

    Over a mesh the compiler adds up what the devices have; over a mapped axis (`use_mapped_axis`) it is done here.
    """
    mean = x.mean(axis=tuple(range(x.ndim - 1)))
    return mean if _mapped.get() is None else jax.lax.pmean(mean, _mapped.get())


def devices_of_rows() -> int:
    """How many devices of a mapped axis share the rows of a batch; 1 where none is mapped."""
    return 1 if _mapped.get() is None else jax.lax.axis_size(_mapped.get())
