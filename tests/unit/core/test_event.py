"""What an event must be."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import (
    DEPTH_MAX,
    EVENT_BYTES_MAX,
    HEADERS_BYTES_MAX,
    check_event,
    check_events,
    check_headers,
    check_key,
    check_kind,
    check_sizes,
    one_line,
)
from penstock.errors import EventTooLarge, InvalidEvent, MalformedEvent, PartitionRefused

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
)
EVENTS = st.dictionaries(TEXT, JSON, max_size=4)


@given(EVENTS, st.booleans(), st.sampled_from([None, 2]))
def test_every_object_is_an_event_however_it_is_spelled(
    event: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    raw = json.dumps(event, ensure_ascii=ascii_only, indent=indent).encode()
    line = one_line(raw)
    assert b"\n" not in line
    assert check_events([line]) == [event]


@given(EVENTS, st.data())
def test_a_key_that_stands_twice_is_found_wherever_it_is(event: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(TEXT)
    inner = f"{{{json.dumps(name)}:1,{json.dumps(name, ensure_ascii=False)}:1}}"
    raw = json.dumps(event | {"!": "HERE"}).replace('"HERE"', inner).encode()
    with pytest.raises(InvalidEvent, match="stands twice"):
        check_events([raw])


@given(st.binary(max_size=40))
def test_bytes_that_are_no_json_object_are_refused_with_their_line(raw: bytes) -> None:
    try:
        taken = isinstance(json.loads(raw.decode()), dict)
    except (ValueError, RecursionError):
        taken = False
    if not taken:
        with pytest.raises(InvalidEvent) as raised:
            check_events([b"{}", raw], [10, 20])
        assert raised.value.fields["line"] == 20


@pytest.mark.parametrize(
    ("value", "name"),
    [("[]", "an array"), ('"x"', "a string"), ("1", "a number"), ("null", "null"), ("true", "a boolean")],
)
def test_what_is_no_object_is_told_what_it_is(value: str, name: str) -> None:
    with pytest.raises(InvalidEvent, match=f"this is {name}"):
        check_events([value.encode()])


def test_the_first_that_is_too_large_is_named_with_its_size() -> None:
    fits = b'{"x":"' + b"y" * (EVENT_BYTES_MAX - 8) + b'"}'
    assert check_event(fits) == fits
    with pytest.raises(EventTooLarge) as raised:
        check_sizes([b"{}", fits + b" ", fits + b"  "], [1, 2, 3])
    assert raised.value.fields == {"line": 2, "size": EVENT_BYTES_MAX + 1, "limit": EVENT_BYTES_MAX}


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 1 << 64, 10**30], ids=lambda number: f"{number:.0e}")
@pytest.mark.parametrize("where", ['{"a":%s}', '{"a":[{"b":[1,%s]}]}', '{ "a" : %s }'])
def test_an_integer_that_does_not_fit_into_64_bits_is_named(number: int, where: str) -> None:
    with pytest.raises(MalformedEvent, match=f"line 7: the number {number} does not fit into 64 bits"):
        check_events([b"{}", (where % number).encode()], [3, 7])


def test_what_only_looks_like_a_large_number_is_none() -> None:
    raw = f'{{"s":"{10**30}","{10**30}":1,"f":1234567890123456789012.5,"n":{(1 << 63) - 1},"m":{-(1 << 63)}}}'

    assert check_events([raw.encode()]) == [json.loads(raw)]


def test_a_key_that_stands_twice_among_very_many_is_found_soon() -> None:
    members = ",".join(f'"k{number}":1' for number in range(50_000))
    started = time.process_time()

    with pytest.raises(MalformedEvent, match="the key 'z' stands twice"):
        check_events([f'{{{members},"z":1,"z":2}}'.encode()])

    assert time.process_time() - started < 20, "a scan for each key takes minutes"


@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_depth_has_a_limit(bracket: str) -> None:
    def nested(depth: int) -> bytes:
        opened, closed = ('{"a":', "}") if bracket == "{}" else ("[", "]")
        return f'{{"x":{opened * (depth - 1)}1{closed * (depth - 1)}}}'.encode()

    check_events([nested(DEPTH_MAX)])
    for depth in (DEPTH_MAX + 1, 900, 5_000, 100_000):
        with pytest.raises(InvalidEvent, match="nested too deeply"):
            check_events([nested(depth)])


def test_brackets_in_strings_and_beside_each_other_are_not_depth() -> None:
    check_events([json.dumps({"x": ['[{\\"'] * 400, "y": [[]] * 400, '"[': "\\" * 500}).encode()])


@pytest.mark.parametrize("key", ["", "k", "é🦑", "k" * 1_024, " "])
def test_a_key_is_up_to_1024_characters(key: str) -> None:
    check_key(key, 1)


@pytest.mark.parametrize("key", ["k" * 1_025, "a\nb", "\x00", "\x7f", "\ud800"], ids=ascii)
def test_no_other_key_is_taken(key: str) -> None:
    with pytest.raises(InvalidEvent) as raised:
        check_key(key, 4)
    assert raised.value.fields["line"] == 4
    assert raised.value.detail.isprintable()


def test_where_a_key_stands_is_told_first() -> None:
    with pytest.raises(PartitionRefused) as raised:
        check_key("a\n", 4, PartitionRefused, where="#/a")
    assert raised.value.fields["reason"].startswith("#/a: a key has no control characters")


@pytest.mark.parametrize("kind", ["", "k" * 1_025, "a\nb", "\x00", "\x01", "\ud800"], ids=ascii)
def test_no_kind_is_empty_long_or_has_control_characters(kind: str) -> None:
    with pytest.raises(InvalidEvent) as raised:
        check_kind(kind, 1, "#/data_type")
    assert raised.value.fields["reason"].startswith("#/data_type: must be 1 to 1024 characters")
    assert raised.value.detail.isprintable()


@pytest.mark.parametrize("kind", ["k", "é🦑", "k" * 1_024, " "])
def test_a_kind_is_1_to_1024_characters(kind: str) -> None:
    check_kind(kind, 1, "#/data_type")


def test_headers_become_one_line_of_json() -> None:
    assert check_headers({}, 1) is None
    assert check_headers({"a": "x\ny", "é": ""}, 1) == '{"a":"x\\ny","é":""}'


@pytest.mark.parametrize(
    "headers",
    [{"": "x"}, {"a\n": "x"}, {"\ud800": "x"}, {"a": "\ud800"}, {"a": "x" * HEADERS_BYTES_MAX}],
    ids=["empty", "control", "name", "value", "large"],
)
def test_headers_that_cannot_be_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidEvent):
        check_headers(headers, 1)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        (b'{"a":"\xff"}', r"byte 7 of it \(FF\) is not UTF-8"),
        (rb'{"a":"\ud800"}', "half a surrogate pair"),
        (b'{"a":', "ends in the middle"),
        (rb'{"a":"\ud83d\ude00"', "ends in the middle"),
        (b'{"a"=1}', "byte 4"),
    ],
)
def test_why_it_is_no_json_is_said_plainly(raw: bytes, says: str) -> None:
    with pytest.raises(InvalidEvent, match=f"line 1: not valid JSON: .*{says}"):
        check_events([raw])
