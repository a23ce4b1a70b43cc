"""Packages whose names are loaded when they are first asked for.

What asks for one of them need not load what the others need: an executor of Spark's, say, has no HTTP client.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """Return `__getattr__` and `__dir__` of *package*, whose names are at home in the modules that are keys of *homes*.

    A module is called as it is below `penstock`. `__getattr__` raises `AttributeError` for other names.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"penstock.{home_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: {*vars(sys.modules[package]), *home_of}
