"""Subscriptions as a hub shows them: their definitions, cursors, partitions and parked keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.wire.log.nakadi import offset_text, parse_offset


class SubscriptionCursor(msgspec.Struct, frozen=True):
    """The position of a subscription in a partition."""

    event_type: str
    partition: int
    epoch: int
    """The epoch of the feed: offsets of different epochs are unrelated."""
    offset: int
    """The next offset wanted."""


class SubscribedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The stream that reads a partition of a subscription, and the partition's lag."""

    event_type: str
    partition: int
    state: str
    """`assigned`; `reassigning`: its stream is about to release it; `unassigned`."""
    stream_id: str | None
    assignment_type: str | None
    """`direct`: the stream requested this partition; `auto`: it is part of its share; None if unassigned."""
    unconsumed_events: int | None
    """Number of uncommitted events; None if it was not requested, or the subscription has not begun."""
    lag_seconds: int | None
    """Age of the oldest uncommitted event in seconds, 0 without any; None as for `unconsumed_events`."""
    parked_events: int = 0
    """Number of parked events, which are not counted among the uncommitted ones."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: a consumer group whose cursors the hub keeps, and whose partitions streams share."""

    id: str
    owning_application: str
    event_types: list[str]
    consumer_group: str
    read_from: str
    """Where it started, in Nakadi's words: begin, end or cursors."""
    created_at: str
    updated_at: str
    initial_cursors: list[dict[str, Any]] = msgspec.field(default_factory=list)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    authorization: dict[str, Any] | None = None
    partitions: list[SubscribedPartition] | None = None
    """The assignment of each partition; None if it was not requested."""


class ParkedEvent(msgspec.Struct, frozen=True):
    """An event that waits because it, or an earlier event of its key, could not be processed."""

    offset: int
    event: dict[str, Any]


class ParkedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose events wait because one of them could not be processed."""

    id: str
    event_type: str
    partition: int
    key: str | None
    """The key; None for an event without a key, which is parked alone."""
    attempts: int
    """Number of times that the first event was sent."""
    parked_at: str
    state: str
    """`parked`, or `retrying`: it is sent again."""
    events: int
    """Number of waiting events."""
    first_offset: int
    last_offset: int


class ParkedKeyDetails(ParkedKey, frozen=True, kw_only=True):
    """A parked key and its first events."""

    items: list[ParkedEvent]


class _WireAssignment(msgspec.Struct):
    partition: str
    state: str
    stream_id: str = ""
    assignment_type: str | None = None
    unconsumed_events: int | None = None
    consumer_lag_seconds: int | None = None
    parked_events: int = 0


class _WireStatus(msgspec.Struct):
    event_type: str
    partitions: list[_WireAssignment]


class WireStats(msgspec.Struct):
    """Statistics in the format of the hub's response."""

    items: list[_WireStatus]


class WireCursor(msgspec.Struct):
    """A cursor in the format of the hub's response: its offset is that of the last consumed event."""

    partition: str
    offset: str
    event_type: str = ""


class WireCursors(msgspec.Struct):
    """Cursors in the format of the hub's response."""

    items: list[WireCursor]


class _WireParkedEvent(msgspec.Struct):
    offset: str
    event: dict[str, Any]


class WireParked(msgspec.Struct):
    """A parked key in the format of the hub's response."""

    id: str
    event_type: str
    partition: str
    key: str | None
    attempts: int
    parked_at: str
    state: str
    events: int
    first_offset: str
    last_offset: str
    items: list[_WireParkedEvent] | None = None


class WireParkedKeys(msgspec.Struct):
    """Parked keys in the format of the hub's response."""

    items: list[WireParked]


def subscription_of(shown: Mapping[str, Any]) -> Subscription:
    """Return the subscription in a hub's response.

    Raises:
        msgspec.ValidationError: The response is malformed.
    """
    found = msgspec.convert(shown, Subscription)
    if "status" not in shown:
        return found
    status = msgspec.convert(shown["status"], list[_WireStatus])
    return msgspec.structs.replace(found, partitions=partitions_of(status))


def partitions_of(status: Iterable[_WireStatus]) -> list[SubscribedPartition]:
    """Return partitions sorted by event type and number."""
    found = [
        SubscribedPartition(
            event_type=each.event_type,
            partition=int(row.partition),
            state=row.state,
            stream_id=row.stream_id or None,
            assignment_type=row.assignment_type,
            unconsumed_events=row.unconsumed_events,
            lag_seconds=row.consumer_lag_seconds,
            parked_events=row.parked_events,
        )
        for each in status
        for row in each.partitions
    ]
    return sorted(found, key=lambda each: (each.event_type, each.partition))


def cursors_of(shown: WireCursors) -> list[SubscriptionCursor]:
    """Return cursors sorted by event type and partition.

    Raises:
        BadCursor: An offset has an unknown format.
    """
    found = []
    for each in shown.items:
        epoch, last = parse_offset(each.offset)
        found.append(SubscriptionCursor(each.event_type, int(each.partition), epoch, last + 1))
    return sorted(found, key=lambda each: (each.event_type, each.partition))


def parked_of(shown: WireParked) -> ParkedKey:
    """Return a parked key."""
    return ParkedKey(**_parked_members(shown))


def parked_details_of(shown: WireParked) -> ParkedKeyDetails:
    """Return a parked key with its events."""
    items = [ParkedEvent(int(each.offset), each.event) for each in shown.items or ()]
    return ParkedKeyDetails(**_parked_members(shown), items=items)


def encode_cursors(cursors: Iterable[SubscriptionCursor | Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return cursors in the hub's format; mappings are in that format already.

    >>> encode_cursors([SubscriptionCursor("order.placed", 0, 1, 42)])[0]["offset"]
    '001-0001-000000000000000041'
    """
    return [
        {
            "event_type": each.event_type,
            "partition": str(each.partition),
            "offset": offset_text(each.epoch, each.offset - 1),
        }
        if isinstance(each, SubscriptionCursor)
        else each
        for each in cursors
    ]


def _parked_members(shown: WireParked) -> dict[str, Any]:
    members = msgspec.structs.asdict(shown)
    del members["items"]
    return members | {name: int(members[name]) for name in ("partition", "first_offset", "last_offset")}
