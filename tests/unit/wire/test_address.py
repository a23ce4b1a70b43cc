"""Addresses are checked before anything is sent."""

from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.wire.address import EXAMPLE, check_address, meant


@pytest.mark.parametrize(
    "url", ["http://localhost:8080", "https://shop.example/hub", "HTTP://h/", "http://[::1]:80/", "http://h/?tenant=7"]
)
def test_an_address_is_taken_as_it_is(url: str) -> None:
    assert check_address(url) == url


def test_address_is_taken_without_the_line_break_of_the_file_that_held_it() -> None:
    assert check_address("http://localhost:8080\r\n") == "http://localhost:8080"


@pytest.mark.parametrize(
    ("url", "instead"),
    [
        ("localhost:1", "http://localhost:1"),
        ("localhost", "http://localhost"),
        ("shop.example/hub", "http://shop.example/hub"),
        ("//shop.example", "http://shop.example"),
        (" localhost:8080", "http://localhost:8080"),
        ("", EXAMPLE),
        ("/hub", "http://hub"),
        ("ftp://localhost", EXAMPLE),
        ("http://", EXAMPLE),
        ("http://localhost:port", EXAMPLE),
        ("http://localhost:99999", EXAMPLE),
        ("http://local host", EXAMPLE),
        ("http://[::1", EXAMPLE),
        ("http://shop..example", EXAMPLE),
        (f"http://{'a' * 64}.example", EXAMPLE),
        ("http://\udcff.example", EXAMPLE),
        ("localhost:1\n", "http://localhost:1"),
        (None, EXAMPLE),
        (8080, EXAMPLE),
        (b"http://localhost", EXAMPLE),
    ],
)
def test_what_is_no_address_is_refused_with_what_was_meant(url: Any, instead: str) -> None:
    with pytest.raises(BadParameter) as refused:
        check_address(url)
    assert refused.value.detail.endswith(f"begins with http:// or https://, such as {instead}")
    assert refused.value.fields["parameter"] == "url"


def test_a_password_is_not_shown() -> None:
    with pytest.raises(BadParameter) as refused:
        check_address("http://ada:secret@localhost:port")
    assert "secret" not in str(refused.value)


def test_an_address_may_be_left_to_something_else_to_complete() -> None:
    assert check_address("", relative=True) == ""
    assert check_address("/hub", relative=True) == "/hub"
    with pytest.raises(BadParameter):
        check_address("localhost:1", relative=True)


def test_what_was_meant_is_an_address_itself() -> None:
    assert meant("a b") == EXAMPLE
