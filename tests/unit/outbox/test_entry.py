"""Checks of events before the insert."""

import datetime as dt
import json
from typing import Any

import pytest

from penstock.core.events.event import EVENT_BYTES_MAX, NewEvent
from penstock.core.log.acceptance import Partitioner
from penstock.core.registry.event_type import EventType
from penstock.errors import EventTooLarge, InvalidEvent
from penstock.outbox.entry import AT_ONCE, OutboxEntries, check_entries, prepare_rows, to_json
from penstock.outbox.event_types import CachedEventType
from penstock.testing.factories import an_event_type


def check(events: list[Any], key: Any = None, headers: Any = None, partition: Any = None) -> OutboxEntries:
    return check_entries(events, key=lambda _: key, headers=lambda _: headers, partition=lambda _: partition)


def known(**definition: Any) -> CachedEventType:
    event_type = EventType.parse(an_event_type("order.placed", **definition))
    return CachedEventType(event_type.fingerprint, event_type, Partitioner(event_type))


def datas(events: Any) -> list[str]:
    return [row[0] for row in json.loads(to_json(events))]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b"[1]", "an array"),
        (b'{"a":1', "not valid JSON"),
        (b'{"a":1,"a":2}', "'a' stands twice"),
        ({1: "a", "1": "b"}, "'1' stands twice"),
    ],
)
def test_invalid_event_is_refused(event: Any, reason: str) -> None:
    with pytest.raises(InvalidEvent, match=f"the event: .*({reason})"):
        check([event])


def test_invalid_event_of_many_is_named_by_its_index() -> None:
    with pytest.raises(InvalidEvent, match=r"^event 1: not valid JSON") as caught:
        check([b"{}", b"{", b"["])

    assert caught.value.index == 1
    assert "line" not in caught.value.fields


def test_event_is_stored_in_one_line_and_times_in_utc() -> None:
    assert datas(check([b'{\r\n  "a": 1\n}\n']).events) == ['{  "a": 1}']

    at = dt.datetime(1930, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(minutes=19, seconds=32)))

    assert datas(check([{"at": at}]).events) == ['{"at":"1930-01-01T11:40:28Z"}']


def test_largest_event_is_taken_and_a_larger_one_is_refused_also_with_its_metadata() -> None:
    largest = b'{"a":"' + b"x" * (EVENT_BYTES_MAX - 8) + b'"}'

    check([largest])
    with pytest.raises(EventTooLarge, match="999001") as caught:
        check([largest.replace(b'"a"', b'"aa"')])

    assert caught.value.fields == {"index": 0, "size": 999_001, "limit": 999_000}

    entries = check([b'{"a":"' + b"x" * (EVENT_BYTES_MAX - 8) + b'"}'])

    assert prepare_rows(known(), entries) == entries.events
    with pytest.raises(EventTooLarge):
        prepare_rows(known(category="business"), entries)


def test_metadata_is_checked_by_category_and_left_alone_where_it_is_whole() -> None:
    entries = check([b"{}", b'{"metadata":7}'])

    assert prepare_rows(known(), entries) == entries.events
    with pytest.raises(InvalidEvent, match="event 1: its metadata is not an object"):
        prepare_rows(known(category="business"), entries)

    metadata = '{"eid": "4ae5011e-eb01-11e5-8b4a-1c6f65464fc6", "occurred_at": "2026-11-20T10:00:00Z"}'
    entries = check([f'{{ "metadata": {metadata} }}'])

    assert prepare_rows(known(category="business"), entries) == entries.events


def test_first_refused_event_of_many_is_named_by_its_index() -> None:
    schema = {"type": "json_schema", "schema": '{"properties":{"n":{"maximum":1500}}}'}
    entries = check([{"n": n} for n in range(2 * AT_ONCE)])

    with pytest.raises(InvalidEvent, match=r"^event 1501: #/n: ") as refused:
        prepare_rows(known(schema=schema), entries)

    assert refused.value.index == 1501
    assert entries.batch is None, "many events are not held decoded"


@pytest.mark.parametrize(
    "accompaniment",
    [
        {"key": 7},
        {"key": b"7"},
        {"headers": [("a", "b")]},
        {"headers": {"a": 1}},
        {"partition": "1"},
        {"partition": True},
    ],
)
def test_key_headers_and_partition_of_wrong_types_are_refused(accompaniment: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        check([b"{}"], **accompaniment)


@pytest.mark.parametrize(
    "accompaniment",
    [{"key": "a\nb"}, {"key": "x" * 1025}, {"headers": {"a\x00": "b"}}, {"headers": {"": "b"}}, {"partition": -1}],
)
def test_key_headers_and_partition_beyond_their_limits_are_refused(accompaniment: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        check([b"{}"], **accompaniment)


def test_key_headers_and_partition_of_a_new_event_precede_the_given_ones() -> None:
    event = NewEvent.of(b'{"a":1}', key="7", headers={"a": "b"}, partition=3)

    entries = check([event, {"a": 2}], key="8")

    assert json.loads(to_json(entries.events)) == [['{"a":1}', "7", '{"a":"b"}', 3], ['{"a":2}', "8", None, None]]
