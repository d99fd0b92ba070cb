"""Packages whose names are imported when they are first used: `import seqjax.train` then costs nothing, and help comes at once."""

from collections.abc import Callable, Iterable, Mapping
import importlib
import sys
from typing import Any


def names(package: str, modules: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """(__getattr__, __dir__, __all__) of a package.

    Args:
        package: its __name__.
        modules: {module of it: the names that it gives}.
    """
    homes = {name: module for module, given in modules.items() for name in given}

    def get(name: str) -> Any:
        if name in homes:
            found = getattr(importlib.import_module(f'{package}.{homes[name]}'), name)
            setattr(sys.modules[package], name, found)
            return found
        if name in modules:
            return importlib.import_module(f'{package}.{name}')
        raise AttributeError(f'module {package!r} has no attribute {name!r}')

    return get, lambda: sorted(homes), sorted(homes)
