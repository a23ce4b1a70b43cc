"""Values of a subscription: its status, cursors, parked keys and batches, made from the JSON of a hub."""

from typing import Any

import msgspec
import pytest

from penstock.client.subscriptions import stream_protocol as subscription_batch
from penstock.client.subscriptions.model import (
    ParkedEvent,
    SubscribedPartition,
    SubscriptionCursor,
    WireCursor,
    WireCursors,
    WireParked,
    cursors_of,
    encode_cursors,
    parked_details_of,
    parked_of,
    subscription_of,
)
from penstock.client.subscriptions.stream_protocol import SubscriptionBatch
from penstock.core.events.decoding import EventDecoder
from penstock.errors import EventUnusable
from penstock.wire.subscriptions import BATCHES
from tests.failing import has_code
from tests.unit.client.batches import batch, line, text

SHOWN: dict[str, Any] = {
    "id": "5",
    "owning_application": "shop",
    "event_types": ["a", "b"],
    "consumer_group": "default",
    "read_from": "end",
    "initial_cursors": [],
    "authorization": None,
    "annotations": {"team": "x"},
    "labels": {},
    "colour": "red",
    "created_at": "2026-01-01T00:00:00.000Z",
    "updated_at": "2026-01-02T00:00:00.000Z",
}
PARKED = WireParked("7", "a", "12", None, 3, "then", "retrying", 2, "41", "57")


def test_subscription_has_its_members_and_no_partitions_without_status() -> None:
    found = subscription_of(SHOWN)

    assert (found.id, found.owning_application, found.event_types) == ("5", "shop", ["a", "b"])
    assert (found.annotations, found.partitions) == ({"team": "x"}, None)


def test_partitions_of_a_subscription_are_sorted_by_event_type_and_number() -> None:
    rows = [
        {"partition": "10", "state": "unassigned", "stream_id": ""},
        {"partition": "2", "state": "assigned", "stream_id": "s", "assignment_type": "direct"},
    ]
    status = [{"event_type": "b", "partitions": rows}, {"event_type": "a", "partitions": rows[:1]}]

    nothing: dict[str, Any] = {"unconsumed_events": None, "lag_seconds": None}
    free: dict[str, Any] = {"partition": 10, "state": "unassigned", "stream_id": None, "assignment_type": None}
    assigned: dict[str, Any] = {"partition": 2, "state": "assigned", "stream_id": "s", "assignment_type": "direct"}
    assert subscription_of(SHOWN | {"status": status}).partitions == [
        SubscribedPartition(event_type="a", **free, **nothing),
        SubscribedPartition(event_type="b", **assigned, **nothing),
        SubscribedPartition(event_type="b", **free, **nothing),
    ]


def test_cursor_is_the_next_offset_here_and_the_last_one_on_the_wire() -> None:
    shown = [WireCursor("10", "001-0002-000000000000000041", "a"), WireCursor("2", "001-0002--1", "a")]

    found = cursors_of(WireCursors(shown))

    assert found == [SubscriptionCursor("a", 2, 2, 0), SubscriptionCursor("a", 10, 2, 42)]
    assert encode_cursors(found) == [
        {"event_type": "a", "partition": "2", "offset": "001-0002--1"},
        {"event_type": "a", "partition": "10", "offset": "001-0002-000000000000000041"},
    ]
    mapping = {"event_type": "a", "partition": "0", "offset": "BEGIN"}
    assert encode_cursors([mapping]) == [mapping]


def test_parked_key_has_numbers_and_its_details_have_events() -> None:
    alone = parked_of(PARKED)
    members = msgspec.structs.asdict(PARKED) | {"items": [{"offset": "41", "event": {"n": 1}}]}

    assert (alone.partition, alone.first_offset, alone.last_offset, alone.key) == (12, 41, 57, None)
    assert parked_details_of(msgspec.convert(members, WireParked)).items == [ParkedEvent(41, {"n": 1})]
    assert parked_details_of(PARKED).items == []


def test_batch_has_the_events_and_the_cursor_of_its_line() -> None:
    found = batch("s1", partition=3, last=9, count=2, token="t9")
    place = {"event_type": "a.b", "partition": "3", "offset": "001-0001-000000000000000009"}

    assert (found.stream_id, found.event_type, found.partition, found.offset) == ("s1", "a.b", 3, place["offset"])
    assert (len(found), found.debug, found.is_parked) == (2, None, False)
    assert found.raw == [b'{"n":8}', b'{"n":9}']
    assert [(event.data, event.partition) for event in found.events] == [({"n": 8}, 3), ({"n": 9}, 3)]
    assert found.cursor == place | {"cursor_token": "t9"}
    assert repr(found) == f"SubscriptionBatch(event_type='a.b', partition=3, offset={place['offset']!r}, events=2)"
    assert batch(token="parked-3-17-x").is_parked


def test_offsets_of_a_batch_are_given_or_follow_from_its_cursor() -> None:
    given = BATCHES.decode(text(last=9, count=2).replace(b"]}\n", b'],"info":{"offsets":[3,9]}}'))

    assert list(batch(last=9, count=2).offsets) == [8, 9]
    assert SubscriptionBatch[Any]("s1", given).offsets == [3, 9]


def test_event_of_a_batch_that_does_not_fit_its_type_raises_where_it_is_used() -> None:
    decoder = EventDecoder(dict[str, str], "a subscription")
    [event] = SubscriptionBatch[Any]("s1", line(), decoder).events

    with pytest.raises(EventUnusable, check=has_code("event-unfit"), match="a subscription"):
        event.data  # noqa: B018


@pytest.mark.parametrize("step", [1, -1], ids=["in order", "in reverse"])
def test_commit_has_the_last_cursor_of_each_partition_and_of_each_parked_batch_by_stream(step: int) -> None:
    batches = [batch(last=10), batch(last=9), batch(partition=1, last=2), batch("s2", last=99)]

    found = subscription_batch.cursors_of(batches[::step])

    assert {stream: sorted(each["offset"][-2:] for each in cursors) for stream, cursors in found.items()} == {
        "s1": ["02", "10"],
        "s2": ["99"],
    }
    parked = [batch(last=7), batch(last=7, token="parked-1-2-x"), batch(last=7, token="parked-2-5-x")]
    assert len(subscription_batch.cursors_of(parked)["s1"]) == 3
