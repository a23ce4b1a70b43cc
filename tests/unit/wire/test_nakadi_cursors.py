"""Nakadi's offsets, cursors, partitions and arrays of events: their texts, meaning and refusals."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.events.event import DECODED_BYTES_MAX, EVENTS_MAX, PIECE_BYTES
from penstock.errors import BadCursor, BadParameter, MalformedRequest, RequestTooLarge, UnusablePosition
from penstock.wire.log.nakadi import (
    OFFSET_MAX,
    CursorPlace,
    GivenCursor,
    GivenPair,
    GivenShift,
    OffsetExtent,
    check_distinct,
    cursor_object,
    event_type_object,
    measure_distance,
    offset_text,
    parse_at,
    parse_batch,
    parse_body,
    parse_header,
    parse_list,
    parse_offset,
    parse_place,
    parse_readable_place,
    partition_extent_object,
    partition_object,
    shift_cursor,
)
from penstock.wire.query import Query
from tests.failing import has_code

EXTENTS = [OffsetExtent(epoch=1, floor=5, next_offset=42), OffsetExtent(epoch=1, floor=0, next_offset=0)]
SECOND = [OffsetExtent(epoch=2, floor=0, next_offset=42)]
OLDEST, NEWEST = "001-0001-000000000000000005", "001-0001-000000000000000041"


def cursor(offset: Any, partition: Any = "0") -> GivenCursor:
    return GivenCursor(partition, offset)


@given(st.integers(0, 0xFFFF), st.lists(st.integers(-1, 10**18 - 1), min_size=2))
def test_offset_is_parsed_as_it_was_written_and_sorts_as_text(epoch: int, offsets: list[int]) -> None:
    texts = [offset_text(epoch, offset) for offset in sorted(offsets)]

    assert [parse_offset(text) for text in texts] == [(epoch, offset) for offset in sorted(offsets)]
    if -1 not in offsets:
        assert texts == sorted(texts)


WRONG = ["", "001-0001", "001-0001-", "001-0001--2", "002-0001-5", "001-1-5", "001-00g1-5", "001-0001-5\n"]
WRONG += ["001-0001-" + "9" * 19, "001-0001-5-6"]
NOT_BEGIN: list[Any] = ["END", "x", "-2", "1.0", " 5", "+5", "\u0665", "9" * 19, 10**18, -3]


def test_other_text_is_no_offset() -> None:
    for text in ("BEGIN", *WRONG):
        with pytest.raises(BadCursor):
            parse_offset(text)
    for offset in (*WRONG, *NOT_BEGIN):
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            parse_place(cursor(offset), EXTENTS)
        assert refused.value.reason == f"it is neither of the form {NEWEST} nor BEGIN"
        assert refused.value.offset == str(offset)


OFFSETS: list[tuple[Any, int]] = [
    ("001-0001-000000000000000007", 8), ("001-0001-7", 8), ("001-00001-7", 8), ("001-0001--1", 0), ("BEGIN", 5),
    ("begin", 5), ("Begin", 5), ("7", 8), ("-1", 0), ("000000000000000007", 8), (7, 8), (-1, 0),
    ("001-0001-" + "9" * 18, 10**18),
]  # fmt: skip


def test_cursor_names_the_last_event_consumed() -> None:
    for offset, position in OFFSETS:
        assert (
            parse_place(cursor(offset), EXTENTS)
            == parse_place(cursor(offset, partition=0), EXTENTS)
            == CursorPlace(0, position)
        )


@given(st.integers(0, OFFSET_MAX + 1), st.integers(1, 0xFFFF))
def test_cursor_is_placed_as_it_was_written(position: int, epoch: int) -> None:
    shown = cursor_object(epoch, CursorPlace(0, position))
    assert parse_place(GivenCursor(**shown), [OffsetExtent(epoch, 0, position)]) == CursorPlace(0, position)


def test_offset_of_another_epoch_is_unavailable() -> None:
    rows: list[str] = ["001-0001-000000000000000007", "001-0003-000000000000000007", "7", "-1"]
    for offset in rows:
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            parse_place(cursor(offset), SECOND)
        assert "which is now 2" in refused.value.detail
        assert refused.value.newest_available_offset == "001-0002-000000000000000041"


def test_missing_partition_is_named() -> None:
    for partition in ["2", "-1", "00", "0x0", "a", "", "\u0660", "9" * 99, "\x00", 2, -1]:
        with pytest.raises(UnusablePosition, check=has_code("unusable-start")) as refused:
            parse_place(cursor("BEGIN", partition), EXTENTS, code="unusable-start")
        assert refused.value.detail == f"non existing partition {str(partition)[:80]}"


@pytest.mark.parametrize("member", ["partition", "offset"])
def test_missing_or_null_member_of_a_cursor_is_named(member: str) -> None:
    whole = {"partition": "0", "offset": "BEGIN"}
    for value in ({**whole, member: None}, {name: each for name, each in whole.items() if name != member}):
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            parse_place(GivenCursor(**value), EXTENTS, "[3]")
        assert refused.value.detail == f'Field "[3].{member}" may not be null'


def test_cursor_can_be_read_from_retained_events_up_to_the_end() -> None:
    for offset, position in (("BEGIN", 5), ("4", 5), ("41", 42), ("7", 8)):
        assert parse_readable_place(cursor(offset), EXTENTS) == CursorPlace(0, position)
    for offset in ("BEGIN", "-1"):
        assert parse_readable_place(cursor(offset, "1"), EXTENTS) == CursorPlace(1, 0)


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        ("3", "retention has removed 1 events after it"),
        ("-1", "retention has removed 5 events after it"),
        ("42", "it is beyond the newest event"),
        ("001-0001-999999999999999999", "it is beyond the newest event"),
    ],
)
def test_cursor_cannot_be_read_before_retained_events_or_beyond_the_end(offset: str, reason: str) -> None:
    with pytest.raises(UnusablePosition, check=has_code("unusable-start")) as refused:
        parse_readable_place(cursor(offset), EXTENTS, code="unusable-start")
    assert refused.value.fields == {
        "partition": "0", "offset": offset, "reason": reason, "oldest_available_offset": OLDEST,
        "newest_available_offset": NEWEST,
    }  # fmt: skip
    assert reason in refused.value.detail


def test_two_cursors_of_one_partition_are_refused() -> None:
    check_distinct([CursorPlace(0, 1), CursorPlace(1, 1)])
    with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
        check_distinct([CursorPlace(0, 1), CursorPlace(1, 1), CursorPlace(0, 2)])
    assert refused.value.partition == "0"


# Lists of cursors: in a header, in a query, in a body.

NO_LISTS = ["", "x", "{", "[", "{}", "7", "null", '"x"', "[1]", '[{"partition":{}}]', '[{"offset":1.5}]', "\xff"]
NO_LISTS += ['[{"partition":"\\ud800"}]', '[{"partition":true}]', "[] []", "[" * 9999]


def test_header_is_a_list_of_cursors_with_any_other_members_and_nothing_else() -> None:
    found = parse_header('[{"partition":"0","offset":"BEGIN","x":1}, {"partition":1,"offset":7}]')
    assert [(each.partition, each.offset) for each in found] == [("0", "BEGIN"), (1, 7)]
    assert parse_header(" [] ") == []
    with pytest.raises(UnusablePosition, check=has_code("unusable-start")) as refused:
        parse_header('[{"partition":"0","offset":"BEGIN"},null]')
    assert refused.value.detail == 'Field "[1]" may not be null'

    for text in NO_LISTS:
        with pytest.raises(BadParameter) as refused:
            parse_header(text)
        assert refused.value.detail == "incorrect syntax of X-nakadi-cursors header"
        assert len(refused.value.value) <= 80


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        *((text, "cursors is not a JSON array") for text in ("", "{}", "\udcff")),
        ("[null]", 'Field "cursors[0]" may not be null'),
    ],
)
def test_query_other_than_a_list_of_cursors_is_refused(text: str, detail: str) -> None:
    with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
        parse_list(text, "cursors")
    assert detail in refused.value.detail


def test_body_is_a_list_without_null() -> None:
    (found,) = parse_body(b'[{"partition":"0","offset":"1","shift":-2}]', GivenShift)
    assert (found.partition, found.offset, found.shift) == ("0", "1", -2)
    assert parse_body(b"[]", GivenPair) == []
    with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")):
        parse_body(b"[null]", GivenPair)
    numbers = [
        b'[{"%b":%b}]' % (member, b"9" * digits)
        for member in (b"offset", b"partition", b"shift")
        for digits in (20, 400, 5000)
    ]
    beyond = b'[{"shift":%d}]' % 2**64
    for body in (b"", b"{}", b'[{"shift":1.5}]', b'[{"shift":"1"}]', beyond, b"\xff", b"[" * 9999, *numbers):
        with pytest.raises(BadParameter) as refused:
            parse_body(body, GivenShift)
        assert refused.value.parameter == "body"


# Distances, shifts, times.


def test_distance_is_the_number_of_events_between_two_cursors() -> None:
    rows: list[tuple[str, str, int]] = [
        ("7", "7", 0), ("7", "8", 1), ("8", "7", -1), ("BEGIN", "41", 37), ("-1", "99", 100), ("0", "BEGIN", 4),
    ]  # fmt: skip
    for initial, final, between in rows:
        assert measure_distance(GivenPair(cursor(initial), cursor(final, 0)), EXTENTS, "[0]") == {
            "initial_cursor": {"partition": "0", "offset": initial},
            "final_cursor": {"partition": "0", "offset": final},
            "distance": between,
        }


@pytest.mark.parametrize(
    ("pair", "detail"),
    [
        (GivenPair(cursor("7"), cursor("-1", "1")), "[0]: the two cursors are of different partitions"),
        (GivenPair(cursor("7")), 'Field "[0].final_cursor" may not be null'),
        (GivenPair(final_cursor=cursor("7")), 'Field "[0].initial_cursor" may not be null'),
        (GivenPair(cursor("7"), GivenCursor("0")), 'Field "[0].final_cursor.offset" may not be null'),
    ],
    ids=["partitions", "no final one", "no initial one", "no offset"],
)
def test_distance_needs_two_cursors_of_one_partition(pair: GivenPair, detail: str) -> None:
    with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
        measure_distance(pair, EXTENTS, "[0]")
    assert refused.value.detail == detail


SHIFTS: list[tuple[str, int | None, int]] = [
    ("BEGIN", 0, 4), ("BEGIN", None, 4), ("-1", 1, 0), ("7", 1, 8), ("41", 10, 51), ("7", -8, -1),
    ("0", OFFSET_MAX, OFFSET_MAX),
]  # fmt: skip


def test_cursor_is_shifted_only_to_possible_offsets() -> None:
    for offset, shift, found in SHIFTS:
        given = GivenShift("0", offset, shift)
        assert shift_cursor(given, EXTENTS, "[0]") == {"partition": "0", "offset": offset_text(1, found)}

    rows: list[tuple[str, int]] = [("-1", -1), ("7", -9), ("1", OFFSET_MAX), ("0", -(2**63)), ("0", 2**63 - 1)]
    for offset, shift in rows:
        with pytest.raises(UnusablePosition, check=has_code("unusable-cursor")) as refused:
            shift_cursor(GivenShift("0", offset, shift), EXTENTS, "[0]")
        assert refused.value.reason == f"{shift} events from it there is no offset"


def test_time_is_parsed_only_with_a_zone() -> None:
    rows: list[tuple[str, int]] = [
        ("1970-01-01T00:00:00Z", 0), ("1970-01-01T00:00:01.000001Z", 1_000_001), ("1970-01-01T01:00:00%2B01:00", 0),
        ("1969-12-31T23:59:59.5Z", -500_000), ("2026-11-20T10:00:00-05:30", 1_795_188_600_000_000),
        ("0001-01-01T00:00:00%2B14:00", -62_135_596_800_000_000 - 14 * 3_600_000_000),
        ("9999-12-31T23:59:59-14:00", 253_402_300_799_000_000 + 14 * 3_600_000_000),
    ]  # fmt: skip
    for text, at in rows:
        assert parse_at(Query(f"at={text}".encode())) == at

    for query in (
        "", "at=", "at=7", "at=2026-11-20", "at=2026-11-20T10:00:00", "at=2026-11-20T10:00:00+01:00", "at=%FF", "at=x",
    ):  # fmt: skip
        with pytest.raises(BadParameter) as refused:
            parse_at(Query(query.encode()))
        assert refused.value.parameter == "at"


# Partitions and event types.


def test_partition_and_event_type_are_shown_with_the_members_of_the_store() -> None:
    available = {"oldest_available_offset": OLDEST, "newest_available_offset": NEWEST}
    assert partition_extent_object(EXTENTS[0], 0) == {"partition": "0"} | available
    assert partition_extent_object(EXTENTS[0], 0, 40)["unconsumed_events"] == 2
    assert partition_extent_object(EXTENTS[1], 1, 0)["unconsumed_events"] == 0
    assert partition_object(1, 7, 5, 42).items() >= ({"partition": "7"} | available).items()
    assert partition_object(1, 7, 0, 0)["newest_available_offset"] == "001-0001--1"

    given = {"name": "n", "x": 1, "labels": {"a": "b"}}

    shown = event_type_object(given, partition_count=4, created_at="then", updated_at="now")

    assert shown == given | {"partition_count": 4, "created_at": "then", "updated_at": "now"}


# Arrays of events.


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xef\xbb\xbf[]", r"The body is not valid JSON: it begins with a UTF-8 byte order mark \(EF BB BF\)"),
        (b'[{"a":1},{"a":2} {"a":3}]', r"The body is not valid JSON: .*expected ',' or ']' \(byte 17\)"),
        (b'[{"a":1},{"a":}]', r"The body is not valid JSON: .*\(byte 14\)"),
        (b'[{"a":1}', "The body is not valid JSON: it ends in the middle"),
        (b'{"a":1}', r"The body is an array of events: it begins with \["),
        (b"", r"The body is an array of events: it begins with \["),
        (b"[" * 100_000, "The JSON is nested too deeply"),
    ],
    ids=["byte order mark", "no comma", "no value", "cut", "an object", "nothing", "deep"],
)
def test_body_other_than_an_array_is_refused_without_an_event(body: bytes, reason: str) -> None:
    with pytest.raises(
        MalformedRequest,
        check=has_code("malformed-batch"),
        match=rf"^Error occurred when parsing event\(s\)\. {reason}",
    ) as refused:
        parse_batch(body)

    assert "line" not in refused.value.fields


MOST = b",".join([b"{}"] * EVENTS_MAX)


BETWEEN = (b",", b" , ", b"\n,\n")
ELEMENTS = {
    "flat events": b'{"id":1,"name":"x"}',
    "nested events": b'{"a":[{},{},{}],"b":[[1,2],{"c":[{}]}]}',
    "texts with marks": b'{"a":"},{[]\\"},{\\\\","b":"]"}',
    "many levels": b"{" + b'"a":[{' * 50 + b"}]" * 50 + b"}",
    "numbers": b"1",
    "texts": b'"},{"',
    "arrays": b"[[],[{}]]",
    "a large event": b'{"a":"' + b"x" * 900_000 + b'"}',
}


@pytest.mark.parametrize(
    ("element", "between"), [(each, BETWEEN[number % 3]) for number, each in enumerate(ELEMENTS.values())], ids=ELEMENTS
)
def test_large_array_is_split_between_its_elements(element: bytes, between: bytes) -> None:
    count = 3 * PIECE_BYTES // (len(element) + len(between)) + 2
    count = min(count, EVENTS_MAX)

    events = parse_batch(b" [ " + between.join([element] * count) + b" ] ")

    assert [bytes(event.data) for event in events] == [element] * count


@pytest.mark.parametrize("end", [b"]", b'{"a":]', b"{}{}]", b'{"a":1}', b",{}]"], ids=repr)
def test_error_of_a_large_array_names_the_byte_of_the_whole_body(end: bytes) -> None:
    event = b'{"a":[{},{}]},'
    few, many = b"[" + event, b"[" + event * (2 * PIECE_BYTES // len(event))

    def refuse(body: bytes) -> str:
        with pytest.raises(MalformedRequest, check=has_code("malformed-batch")) as refused:
            parse_batch(body)
        return str(refused.value)

    assert refuse(many + end) == re.sub(
        r"(?<=byte )\d+", lambda number: str(int(number[0]) + len(many) - len(few)), refuse(few + end)
    )


def test_array_that_ends_with_a_comma_behind_a_large_event_is_refused() -> None:
    event = ELEMENTS["a large event"]
    with pytest.raises(MalformedRequest, match=rf"an event is missing \(byte {len(event) + 3}\)"):
        parse_batch(b"[" + event + b",]")


def test_event_that_is_far_too_large_is_cut_off_and_the_last() -> None:
    small = b'{"a":1}'
    for large in (b'{"a":"' + b"x" * 5_000_000 + b'"}', b"[" * 5_000_000, b'{"a":[' + b"{}," * 2_000_000 + b"{}]}"):
        events = parse_batch(b"[" + small + b"," + large + b"," + small + b"]")

        assert bytes(events[0].data) == small
        assert [len(bytes(event.data)) for event in events[1:]] == [DECODED_BYTES_MAX + 1]


def test_array_has_a_limited_number_of_events_whatever_braces_they_hold() -> None:
    assert len(parse_batch(b"[" + MOST + b" ]")) == EVENTS_MAX
    assert len(parse_batch(b" [ " + b" ,\n".join([b'{"a":"{","b":[{},{},{}]}'] * 100_000) + b"]")) == 100_000
    with pytest.raises(RequestTooLarge, check=has_code("too-many-events"), match="250000"):
        parse_batch(b"[" + MOST + b",{}]")
    for body in (b"[{}{}", b"[{},[", b"[{},{]"):
        with pytest.raises(MalformedRequest, check=has_code("malformed-batch")):
            parse_batch(body + b"{" * (EVENTS_MAX + 1))
