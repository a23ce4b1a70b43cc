import pytest
import typer

from penstock.cli.options import checked_url


def test_address_requires_a_scheme() -> None:
    assert checked_url("https://hub.example/penstock") == "https://hub.example/penstock"
    with pytest.raises(typer.BadParameter, match="begins with http:// or https://, such as http://localhost:8080"):
        checked_url("localhost:8080")


@pytest.mark.parametrize("url", ["http://", "http://localhost:port", "http://a b"])
def test_address_requires_a_host_and_a_valid_port(url: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{url}' is not an address"):
        checked_url(url)
