"""Loads the public names of a package at their first use.

A program then loads only the modules that it uses: for example, Spark executors do not load the HTTP client.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def export_lazily(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], Iterable[str]]]:
    """Return `__getattr__` and `__dir__` of *package*, which load its names from the modules in *homes*.

    *homes* maps modules, named relative to `penstock`, to the names that they define. `__getattr__` raises
    `AttributeError` for other names.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"penstock.{home_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load, lambda: {*vars(sys.modules[package]), *home_of}
