"""Nakadi's texts and shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import EVENTS_MAX
from penstock.errors import BadCursor, MalformedBatch, TooManyEvents
from penstock.wire.nakadi import event_type_object, offset_text, parse_batch, parse_offset, partition_object


@given(st.integers(0, 0xFFFF), st.integers(-1, 10**18 - 1))
def test_an_offset_is_itself_again_after_its_text(epoch: int, offset: int) -> None:
    assert parse_offset(offset_text(epoch, offset)) == (epoch, offset)


@given(st.lists(st.integers(0, 10**18 - 1), min_size=2))
def test_texts_sort_as_offsets_do(offsets: list[int]) -> None:
    assert [offset_text(1, offset) for offset in sorted(offsets)] == sorted(
        offset_text(1, offset) for offset in offsets
    )


WRONG = ["", "BEGIN", "001-1-5", "001-0001-", "001-0001--2", "002-0001-5", "001-0001-5\n", "001-00G1-5"]


@pytest.mark.parametrize("text", [*WRONG, "001-0001-" + "9" * 19])
def test_no_other_text_is_an_offset(text: str) -> None:
    with pytest.raises(BadCursor):
        parse_offset(text)


def test_a_partition_ends_before_it_begins_when_it_is_empty() -> None:
    assert partition_object(1, 7, 0, 0)["newest_available_offset"] == "001-0001--1"
    full = partition_object(1, 7, 5, 42)
    assert (full["partition"], full["oldest_available_offset"]) == ("7", "001-0001-000000000000000005")
    assert full["newest_available_offset"] == "001-0001-000000000000000041"


def test_an_event_type_is_shown_as_its_owner_gave_it_and_with_what_the_store_knows() -> None:
    given = {"name": "n", "x": 1, "labels": {"a": "b"}}

    shown = event_type_object(given, partition_count=4, created_at="then", updated_at="now")

    assert shown == given | {"partition_count": 4, "created_at": "then", "updated_at": "now"}


@pytest.mark.parametrize(
    ("body", "says"),
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
def test_an_array_that_is_none_is_told_without_an_event(body: bytes, says: str) -> None:
    with pytest.raises(MalformedBatch, match=rf"^Error occurred when parsing event\(s\)\. {says}") as refused:
        parse_batch(body)

    assert "line" not in refused.value.fields


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"[" + b",".join([b"{}"] * EVENTS_MAX) + b" ]", EVENTS_MAX),
        (b" [ " + b" ,\n".join([b'{"a":"{","b":[{},{},{}]}'] * 100_000) + b"]", 100_000),
    ],
    ids=["as many as may be", "braces within"],
)
def test_as_many_events_as_may_be_are_taken(body: bytes, events: int) -> None:
    assert len(parse_batch(body)) == events


@pytest.mark.parametrize("end", [b"]", b",", b""], ids=["whole", "goes on", "cut"])
def test_more_events_than_may_be_are_refused(end: bytes) -> None:
    with pytest.raises(TooManyEvents, match="250000"):
        parse_batch(b"[" + b",".join([b"{}"] * (EVENTS_MAX + 1)) + end)


@pytest.mark.parametrize("body", [b"[{}{}", b"[{},[", b"[{},{]"], ids=bytes.decode)
def test_what_is_no_array_is_told_however_many_braces_it_has(body: bytes) -> None:
    with pytest.raises(MalformedBatch):
        parse_batch(body + b"{" * (EVENTS_MAX + 1))
