"""Tables of things by name that strangers extend: `models.MODELS.register('mine')(MyModel)`."""

from collections.abc import Callable, Iterator, Mapping
import importlib
from typing import Any

from seqjax.errors import FieldError, suggestion


class Registry(Mapping):
    """Name -> thing, in the order of registration.

        CELLS = Registry('cell', {'lstm': LSTM})
        CELLS.register('mine')(MyCell)        # or as a decorator: @CELLS.register('mine')

    Args:
        kind: what the things are, for sentences: "cell='lsmt': no such cell; did you mean 'lstm'?"
        things: those that come with seqjax; 'module:name' is imported when it is first asked for.
    """

    def __init__(self, kind: str, things: Mapping[str, Any] = {}) -> None:
        self.kind = kind
        self._things = dict(things)

    def register(self, name: str, thing: Any = None) -> Callable[[Any], Any]:
        """Adds `thing` under a name that is free, or was taken by a thing of the same module and name."""
        def add(thing: Any) -> Any:
            known = self.get(name)
            if known is not None and _place(known) != _place(thing):
                raise FieldError(self.kind, name, f'is registered already, for {_place(known)}; choose another name')
            self._things[name] = thing
            return thing

        return add if thing is None else add(thing)

    def __getitem__(self, name: str) -> Any:
        if name not in self._things:
            known = suggestion(str(name), self._things)
            own = '' if known.endswith('?') else '; for one of your own give the experiment file that registers it: --config=FILE'
            raise FieldError(self.kind, name, f'no such {self.kind}; {known}{own}')
        if isinstance(self._things[name], str):
            module, _, attribute = self._things[name].partition(':')
            self._things[name] = getattr(importlib.import_module(module), attribute)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._things else default


def _place(thing: Any) -> str:
    """'module.Name' of a class or function: an experiment file that is run twice registers the same thing twice. Of a
    source it is that of the function that makes it."""
    thing = getattr(thing, 'make', thing)
    return f'{getattr(thing, "__module__", type(thing).__module__)}.{getattr(thing, "__qualname__", repr(thing))}'
