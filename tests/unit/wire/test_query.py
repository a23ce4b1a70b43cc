"""Parameters of a request: each is named, with its value and what is allowed, when it is wrong."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadCursor, BadParameter, Invalid
from penstock.wire.query import HeaderChoice, Query, headers_of, kinds_of, shown


def query(text: str) -> Query:
    return Query(text.encode())


def test_a_query_without_arguments_is_none() -> None:
    assert not query("")
    assert query("a=")
    assert list(query("a=1&b=2&a=3").names()) == ["a", "b", "a"]


def test_text_is_decoded_once() -> None:
    assert query("a=%25C3%C3%A9+x").text("a") == "%C3é x"
    assert query("a=").text("a") == ""
    assert query("b=1").text("a") is None


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_and_the_refusal_can_be_written(raw: bytes) -> None:
    asked = Query(raw.replace(b"#", b""))
    reads: list[Callable[[str], Any]] = [asked.text, asked.cursor, asked.flag]
    reads += [lambda name: asked.integer(name, 1, low=0, high=9), lambda name: asked.seconds(name, cut_at=9)]
    for name in asked.names():
        for read in reads:
            try:
                read(name)
            except Invalid as error:
                json.dumps(error.fields).encode()
                shown(error.detail).encode()


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("9", 9), ("007", 7)])
def test_whole_numbers_are_read(text: str, value: int) -> None:
    assert query(f"a={text}").integer("a", None, low=0, high=9) == value


@pytest.mark.parametrize("text", ["", "10", "-1", "1.0", "x", "%2B1", " 1", "1e0", "%D9%A1", "9" * 40, "%FF"])
def test_anything_else_is_no_whole_number(text: str) -> None:
    with pytest.raises(BadParameter) as raised:
        query(f"a={text}").integer("a", 5, low=0, high=9)
    assert raised.value.fields["parameter"] == "a"
    assert raised.value.fields["allowed"] == "a whole number from 0 to 9"


def test_a_number_that_must_be_there_is_missed() -> None:
    assert query("").integer("a", 5, low=0, high=9) == 5
    with pytest.raises(BadParameter) as raised:
        query("").integer("a", None, low=0, high=9)
    assert raised.value.fields["value"] is None


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("1.5", 1.5), ("60", 60), ("61", 60), (".5", 0.5), ("1e9", 60)])
def test_seconds_are_cut(text: str, value: float) -> None:
    assert query(f"a={text}").seconds("a", cut_at=60) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "nan", "inf", "Infinity", "1e400", "1_0", "%201", ".", "x", "-inf", "%D9%A1", "1s"]
)
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        query(f"a={text}").seconds("a", cut_at=60)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("TRUE", True), ("0", False), ("False", False)]
)
def test_flags_are_read(text: str, value: bool) -> None:
    assert query(f"a={text}").flag("a") is value


@pytest.mark.parametrize("text", ["", "yes", "2", "%FF"])
def test_anything_else_is_no_flag(text: str) -> None:
    with pytest.raises(BadParameter):
        query(f"a={text}").flag("a")


@pytest.mark.parametrize("text", ["", "%00", "%C3%A9", "%FF", "%0A", "x" * 8_193])
def test_a_cursor_is_printable_ascii_and_not_endless(text: str) -> None:
    with pytest.raises(BadCursor) as raised:
        query(f"a={text}").cursor("a")
    assert raised.value.fields["parameter"] == "a"


@pytest.mark.parametrize("name", ["a", "%C3%A9"])
def test_a_parameter_given_twice_is_refused(name: str) -> None:
    with pytest.raises(BadParameter, match="one value"):
        query(f"{name}=1&{name}=1").text("a" if name == "a" else "é")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("", None),
        ("event-types=A;b;;%20C%20", ({"a", "b", "c"}, False)),
        ("skip-event-types=A", ({"a"}, True)),
        ("event-types=%C3%85", ({"Å"}, False)),
        ("event-types=a,b", ({"a,b"}, False)),
    ],
)
def test_kinds_are_separated_by_semicolons_and_compared_in_lower_case(
    text: str, kinds: tuple[set[str], bool] | None
) -> None:
    assert kinds_of(query(text)) == kinds


@pytest.mark.parametrize(
    "text",
    [
        "event-types=",
        "event-types=;",
        "skip-event-types=%20",
        "event-types=%00",
        "event-types=%FF",
        "event-types=a&skip-event-types=b",
        "event-types=a&event-types=b",
    ],
)
def test_kinds_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        kinds_of(query(text))


def test_headers_are_none_some_or_all() -> None:
    found = {"a": "1", "b": "2"}

    def chosen(text: str) -> HeaderChoice:
        choice = headers_of(query(text))
        assert choice is not None
        return choice

    assert headers_of(query("")) is None
    assert headers_of(query("headers=")) is None
    assert headers_of(query("headers=,%20,")) is None
    assert chosen("headers=b,%20x").of(found) == {"b": "2"}
    assert chosen("headers=x,_all").of(found) == found
