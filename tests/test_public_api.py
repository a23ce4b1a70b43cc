"""The public names are those that `penstock/__init__.py` lists: no more, no fewer."""

from types import ModuleType

import penstock


def test_public_names_are_sorted() -> None:
    assert list(penstock.__all__) == sorted(penstock.__all__)


def test_public_names_are_those_that_are_listed() -> None:
    listed = {name: getattr(penstock, name) for name in penstock.__all__}
    found = {name: value for name, value in vars(penstock).items() if not name.startswith("_")}
    strays = [name for name, value in found.items() if name not in listed and not isinstance(value, ModuleType)]

    assert not strays, f"add {strays} to __all__, or import them under a private name"
