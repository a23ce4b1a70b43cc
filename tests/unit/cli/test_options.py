import pytest
import typer

from penstock.cli.options import checked_url, examples, prose


def test_an_address_begins_with_its_scheme() -> None:
    assert checked_url("https://hub.example/penstock") == "https://hub.example/penstock"
    with pytest.raises(typer.BadParameter):
        checked_url("localhost:8080")


def test_examples_are_shown_as_they_are_typed() -> None:
    assert examples("jq '.[]' x", "penstock tail x").splitlines()[1:] == [r"$ jq '.\[]' x", "$ penstock tail x"]


def test_paragraphs_are_unbroken() -> None:
    def command() -> None:
        """Do it.

        First line
        second line.
        """

    assert prose(command) == "Do it.\n\nFirst line second line."
