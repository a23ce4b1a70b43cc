"""The public names are those that `penstock/__init__.py` lists: no more, no fewer."""

import pytest

import penstock


def test_public_names_are_sorted() -> None:
    assert list(penstock.__all__) == sorted(penstock.__all__)


def test_public_names_are_those_that_are_listed() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name).__module__.startswith("penstock."), name
    loading = {"__getattr__", "__dir__", "export_lazily"}
    ours = [name for name, value in vars(penstock).items() if getattr(value, "__module__", "").startswith("penstock.")]
    strays = set(ours) - set(penstock.__all__) - loading

    assert not strays, f"add {strays} to __all__, or import them under a private name"


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="Bookmark"):
        penstock.Bookmark  # noqa: B018
