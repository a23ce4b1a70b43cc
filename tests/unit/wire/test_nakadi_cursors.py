"""Nakadi's cursors: what is accepted, where they stand, and what is said of those that stand nowhere."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import BadParameter, UnusableCursor, UnusableStart
from penstock.wire.nakadi import offset_text
from penstock.wire.nakadi_cursors import (
    OFFSET_MAX,
    Extent,
    GivenCursor,
    GivenPair,
    GivenShift,
    Place,
    check_distinct,
    cursor_object,
    distance,
    parse_at,
    parse_body,
    parse_header,
    parse_list,
    partition_shown,
    place,
    readable,
    shifted,
)
from penstock.wire.query import Query

EXTENTS = [Extent(epoch=1, floor=5, next_offset=42), Extent(epoch=1, floor=0, next_offset=0)]
SECOND = [Extent(epoch=2, floor=0, next_offset=42)]


def cursor(offset: Any, partition: Any = "0") -> GivenCursor:
    return GivenCursor(partition, offset)


@pytest.mark.parametrize(
    ("offset", "position"),
    [
        ("001-0001-000000000000000007", 8),
        ("001-0001-7", 8),
        ("001-00001-7", 8),
        ("001-0001--1", 0),
        ("BEGIN", 5),
        ("begin", 5),
        ("Begin", 5),
        ("7", 8),
        ("-1", 0),
        ("000000000000000007", 8),
        (7, 8),
        (-1, 0),
        ("001-0001-" + "9" * 18, 10**18),
    ],
    ids=repr,
)
def test_a_cursor_names_the_last_event_consumed(offset: Any, position: int) -> None:
    assert place(cursor(offset), EXTENTS) == Place(0, position)
    assert place(cursor(offset, partition=0), EXTENTS) == Place(0, position)


@pytest.mark.parametrize(
    "offset",
    [
        *("", "END", "x", "001-0001", "001-0001-", "001-0001--2", "-2", "1.0", "002-0001-5", "001-1-5", "001-00g1-5"),
        *("001-0001-5\n", " 5", "+5", "\u0665", "9" * 19, "001-0001-" + "9" * 19, "001-0001-5-6", 10**18, -3),
    ],
    ids=repr,
)
def test_any_other_text_is_no_offset(offset: Any) -> None:
    with pytest.raises(UnusableCursor) as refused:
        place(cursor(offset), EXTENTS)
    assert refused.value.fields["reason"] == "it is neither of the form 001-0001-000000000000000041 nor BEGIN"
    assert refused.value.fields["offset"] == str(offset)


@pytest.mark.parametrize("offset", ["001-0001-000000000000000007", "001-0003-000000000000000007", "7", "-1"])
def test_an_offset_of_another_epoch_is_unavailable(offset: str) -> None:
    with pytest.raises(UnusableCursor) as refused:
        place(cursor(offset), SECOND)
    assert "which is now 2" in refused.value.detail
    assert refused.value.fields["newest_available_offset"] == "001-0002-000000000000000041"


@pytest.mark.parametrize("partition", ["2", "-1", "00", "0x0", "a", "", "\u0660", "9" * 99, "\x00", 2, -1], ids=repr)
def test_a_partition_that_is_not_there_is_named(partition: Any) -> None:
    with pytest.raises(UnusableStart) as refused:
        place(cursor("BEGIN", partition), EXTENTS, kind=UnusableStart)
    assert refused.value.detail == f"non existing partition {str(partition)[:80]}"


@pytest.mark.parametrize(("offset", "position"), [("BEGIN", 5), ("4", 5), ("41", 42), ("7", 8)])
def test_it_can_be_read_from_what_is_there_up_to_the_end(offset: str, position: int) -> None:
    assert readable(cursor(offset), EXTENTS) == Place(0, position)


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        ("3", "retention has removed 1 events after it"),
        ("-1", "retention has removed 5 events after it"),
        ("42", "it is beyond the newest event"),
        ("001-0001-999999999999999999", "it is beyond the newest event"),
    ],
)
def test_it_cannot_be_read_from_what_is_gone_or_not_there_yet(offset: str, reason: str) -> None:
    with pytest.raises(UnusableStart) as refused:
        readable(cursor(offset), EXTENTS, kind=UnusableStart)
    assert refused.value.fields == {
        "partition": "0",
        "offset": offset,
        "reason": reason,
        "oldest_available_offset": "001-0001-000000000000000005",
        "newest_available_offset": "001-0001-000000000000000041",
    }
    assert reason in refused.value.detail


def test_an_empty_partition_is_read_from_before_its_first_event() -> None:
    for offset in ("BEGIN", "-1"):
        assert readable(cursor(offset, "1"), EXTENTS) == Place(1, 0)


@given(st.integers(0, OFFSET_MAX + 1), st.integers(1, 0xFFFF))
def test_a_place_is_itself_again_after_its_cursor(position: int, epoch: int) -> None:
    extent = Extent(epoch, 0, position)
    shown = cursor_object(epoch, Place(0, position))
    assert place(GivenCursor(**shown), [extent]) == Place(0, position)


NO_LISTS = ["", "x", "{", "[", "{}", "7", "null", '"x"', "[1]", '[{"partition":{}}]', '[{"offset":1.5}]', "\xff"]
NO_LISTS += ['[{"partition":"\\ud800"}]', '[{"partition":true}]', "[] []"]


class TestHeader:
    def test_it_is_a_list_of_cursors_of_which_more_may_be_said(self) -> None:
        found = parse_header('[{"partition":"0","offset":"BEGIN","x":1}, {"partition":1,"offset":7}]')
        assert [(each.partition, each.offset) for each in found] == [("0", "BEGIN"), (1, 7)]
        assert parse_header(" [] ") == []

    @pytest.mark.parametrize("text", [*NO_LISTS, "[" * 9999], ids=lambda text: repr(text[:20]))
    def test_what_is_no_such_list_has_an_incorrect_syntax(self, text: str) -> None:
        with pytest.raises(BadParameter) as refused:
            parse_header(text)
        assert refused.value.detail == "incorrect syntax of X-nakadi-cursors header"
        assert len(refused.value.fields["value"]) <= 80

    def test_a_cursor_that_is_null_is_none(self) -> None:
        with pytest.raises(UnusableStart) as refused:
            parse_header('[{"partition":"0","offset":"BEGIN"},null]')
        assert refused.value.detail == 'Field "[1]" may not be null'


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "cursors is not a JSON array"),
        ("{}", "cursors is not a JSON array"),
        ("\udcff", "cursors is not a JSON array"),
        ("[null]", 'Field "cursors[0]" may not be null'),
    ],
)
def test_cursors_of_the_query_are_refused_as_one_kind_of_error(text: str, detail: str) -> None:
    with pytest.raises(UnusableCursor) as refused:
        parse_list(text, "cursors")
    assert detail in refused.value.detail


@pytest.mark.parametrize("member", ["partition", "offset"])
def test_a_member_that_is_null_or_missing_is_named(member: str) -> None:
    given = {"partition": "0", "offset": "BEGIN"}
    for value in ({**given, member: None}, {name: each for name, each in given.items() if name != member}):
        with pytest.raises(UnusableCursor) as refused:
            place(GivenCursor(**value), EXTENTS, "[3]")
        assert refused.value.detail == f'Field "[3].{member}" may not be null'


def test_two_cursors_of_one_partition_are_refused() -> None:
    check_distinct([Place(0, 1), Place(1, 1)])
    with pytest.raises(UnusableCursor) as refused:
        check_distinct([Place(0, 1), Place(1, 1), Place(0, 2)])
    assert refused.value.fields["partition"] == "0"


BEYOND = b'[{"shift":%d}]' % 2**64


@pytest.mark.parametrize("member", ["offset", "partition", "shift"])
@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_a_number_that_is_beyond_all_numbers_is_refused(member: str, digits: int) -> None:
    with pytest.raises(BadParameter):
        parse_body(b'[{"%b":%b}]' % (member.encode(), b"9" * digits), GivenShift)


def test_a_body_is_a_list_without_null() -> None:
    (found,) = parse_body(b'[{"partition":"0","offset":"1","shift":-2}]', GivenShift)
    assert (found.partition, found.offset, found.shift) == ("0", "1", -2)
    assert parse_body(b"[]", GivenPair) == []
    with pytest.raises(UnusableCursor):
        parse_body(b"[null]", GivenPair)
    for body in (b"", b"{}", b'[{"shift":1.5}]', b'[{"shift":"1"}]', BEYOND, b"\xff", b"[" * 9999):
        with pytest.raises(BadParameter) as refused:
            parse_body(body, GivenShift)
        assert refused.value.fields["parameter"] == "body"


@pytest.mark.parametrize(
    ("initial", "final", "between"),
    [("7", "7", 0), ("7", "8", 1), ("8", "7", -1), ("BEGIN", "41", 37), ("-1", "99", 100), ("0", "BEGIN", 4)],
)
def test_a_distance_is_the_number_of_events_between(initial: str, final: str, between: int) -> None:
    assert distance(GivenPair(cursor(initial), cursor(final, 0)), EXTENTS, "[0]") == {
        "initial_cursor": {"partition": "0", "offset": initial},
        "final_cursor": {"partition": "0", "offset": final},
        "distance": between,
    }


def test_there_is_no_distance_between_partitions_or_from_nowhere() -> None:
    for pair, said in (
        (GivenPair(cursor("7"), cursor("-1", "1")), "[0]: the two cursors are of different partitions"),
        (GivenPair(cursor("7")), 'Field "[0].final_cursor" may not be null'),
        (GivenPair(final_cursor=cursor("7")), 'Field "[0].initial_cursor" may not be null'),
        (GivenPair(cursor("7"), GivenCursor("0")), 'Field "[0].final_cursor.offset" may not be null'),
    ):
        with pytest.raises(UnusableCursor) as refused:
            distance(pair, EXTENTS, "[0]")
        assert refused.value.detail == said


@pytest.mark.parametrize(
    ("offset", "shift", "found"),
    [
        ("BEGIN", 0, 4),
        ("BEGIN", None, 4),
        ("-1", 1, 0),
        ("7", 1, 8),
        ("41", 10, 51),
        ("7", -8, -1),
        ("0", OFFSET_MAX, OFFSET_MAX),
    ],
)
def test_a_cursor_is_shifted_beyond_the_end_too(offset: str, shift: int | None, found: int) -> None:
    given = GivenShift("0", offset, shift)
    assert shifted(given, EXTENTS, "[0]") == {"partition": "0", "offset": offset_text(1, found)}


@pytest.mark.parametrize(
    ("offset", "shift"), [("-1", -1), ("7", -9), ("1", OFFSET_MAX), ("0", -(2**63)), ("0", 2**63 - 1)]
)
def test_a_cursor_is_not_shifted_to_where_no_offset_is(offset: str, shift: int) -> None:
    with pytest.raises(UnusableCursor) as refused:
        shifted(GivenShift("0", offset, shift), EXTENTS, "[0]")
    assert refused.value.fields["reason"] == f"{shift} events from it there is no offset"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.000001Z", 1_000_001),
        ("1970-01-01T01:00:00%2B01:00", 0),
        ("1969-12-31T23:59:59.5Z", -500_000),
        ("2026-11-20T10:00:00-05:30", 1_795_188_600_000_000),
        ("0001-01-01T00:00:00%2B14:00", -62_135_596_800_000_000 - 14 * 3_600_000_000),
        ("9999-12-31T23:59:59-14:00", 253_402_300_799_000_000 + 14 * 3_600_000_000),
    ],
)
def test_a_time_has_a_zone(text: str, at: int) -> None:
    assert parse_at(Query(f"at={text}".encode())) == at


@pytest.mark.parametrize(
    "query",
    ["", "at=", "at=7", "at=2026-11-20", "at=2026-11-20T10:00:00", "at=2026-11-20T10:00:00+01:00", "at=%FF", "at=x"],
)
def test_what_is_no_time_is_named(query: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_at(Query(query.encode()))
    assert refused.value.fields["parameter"] == "at"


def test_a_partition_tells_what_a_consumer_has_not_had() -> None:
    assert partition_shown(EXTENTS[0], 0) == {
        "partition": "0",
        "oldest_available_offset": "001-0001-000000000000000005",
        "newest_available_offset": "001-0001-000000000000000041",
    }
    assert partition_shown(EXTENTS[0], 0, 40)["unconsumed_events"] == 2
    assert partition_shown(EXTENTS[1], 1, 0)["unconsumed_events"] == 0
