from typing import Any

import msgspec
import pytest

from penstock.client.subscription import (
    ParkedEvent,
    SubscribedPartition,
    SubscriptionCursor,
    WireCursor,
    WireCursors,
    WireParked,
    as_wire,
    cursors_of,
    parked_details_of,
    parked_of,
    subscription_of,
)
from penstock.errors import BadCursor

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


def test_a_subscription_is_what_is_known_of_it() -> None:
    found = subscription_of(SHOWN)

    assert (found.id, found.owning_application, found.event_types) == ("5", "shop", ["a", "b"])
    assert (found.annotations, found.partitions) == ({"team": "x"}, None)


def test_its_status_is_by_event_type_and_number_and_nobody_is_none() -> None:
    rows = [
        {"partition": "10", "state": "unassigned", "stream_id": ""},
        {"partition": "2", "state": "assigned", "stream_id": "s", "assignment_type": "direct"},
    ]
    status = [{"event_type": "b", "partitions": rows}, {"event_type": "a", "partitions": rows[:1]}]

    found = subscription_of(SHOWN | {"status": status}).partitions

    nothing: dict[str, Any] = {"unconsumed_events": None, "lag_seconds": None}
    free: dict[str, Any] = {"partition": 10, "state": "unassigned", "stream_id": None, "assignment_type": None}
    assert found == [
        SubscribedPartition(event_type="a", **free, **nothing),
        SubscribedPartition(
            event_type="b", partition=2, state="assigned", stream_id="s", assignment_type="direct", **nothing
        ),
        SubscribedPartition(event_type="b", **free, **nothing),
    ]


def test_what_is_no_subscription_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="id"):
        subscription_of({name: value for name, value in SHOWN.items() if name != "id"})


def test_a_cursor_is_the_offset_that_is_wanted_next_and_goes_back_as_the_last_one() -> None:
    shown = WireCursors(
        [
            WireCursor("10", "001-0002-000000000000000041", "a"),
            WireCursor("2", "001-0002--1", "a"),
        ]
    )

    found = cursors_of(shown)

    assert found == [SubscriptionCursor("a", 2, 2, 0), SubscriptionCursor("a", 10, 2, 42)]
    assert as_wire(found) == [
        {"event_type": "a", "partition": "2", "offset": "001-0002--1"},
        {"event_type": "a", "partition": "10", "offset": "001-0002-000000000000000041"},
    ]


def test_a_mapping_is_a_cursor_as_it_is() -> None:
    given = {"event_type": "a", "partition": "0", "offset": "BEGIN"}

    assert as_wire([given]) == [given]


def test_an_offset_that_is_not_known_here_is_refused() -> None:
    with pytest.raises(BadCursor):
        cursors_of(WireCursors([WireCursor("0", "17", "a")]))


def test_a_parked_key_has_numbers_and_its_details_the_events() -> None:
    alone = parked_of(PARKED)
    with_events = parked_details_of(
        msgspec.convert(msgspec.structs.asdict(PARKED) | {"items": [{"offset": "41", "event": {"n": 1}}]}, WireParked)
    )

    assert (alone.partition, alone.first_offset, alone.last_offset, alone.key) == (12, 41, 57, None)
    assert with_events.items == [ParkedEvent(41, {"n": 1})]
    assert parked_details_of(PARKED).items == []
