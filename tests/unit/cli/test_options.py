import pytest
import typer

from penstock.cli.options import checked_url, examples, prose


def test_an_address_begins_with_its_scheme() -> None:
    assert checked_url("https://hub.example/penstock") == "https://hub.example/penstock"
    with pytest.raises(typer.BadParameter, match="begins with http:// or https://, such as http://localhost:8080"):
        checked_url("localhost:8080")


@pytest.mark.parametrize("url", ["http://", "http://localhost:port", "http://a b"])
def test_an_address_has_a_host_and_a_port_that_can_be(url: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{url}' is not an address"):
        checked_url(url)


def test_examples_are_shown_as_they_are_typed() -> None:
    assert examples("jq '.[]' x", "penstock tail x").splitlines()[1:] == [r"$ jq '.\[]' x", "$ penstock tail x"]


def test_paragraphs_are_unbroken() -> None:
    def command() -> None:
        """Do it.

        First line
        second line.
        """

    assert prose(command) == "Do it.\n\nFirst line second line."
