"""A subscription as a hub shows it: its definition, its cursors, who reads its partitions, and its parked keys."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from penstock.wire.log.nakadi import offset_text, parse_offset


class SubscriptionCursor(msgspec.Struct, frozen=True):
    """Where a subscription stands in a partition."""

    event_type: str
    partition: int
    epoch: int
    """Of the feed: offsets of different epochs have nothing to do with each other."""
    offset: int
    """The one that is wanted next."""


class SubscribedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """Who has a partition of a subscription, and how far behind it is."""

    event_type: str
    partition: int
    state: str
    """assigned; reassigning: the stream that has it is to hand it over; unassigned: none has it."""
    stream_id: str | None
    assignment_type: str | None
    """direct: the stream has asked for this partition; auto: it has its share; None: none has it."""
    unconsumed_events: int | None
    """How many events are not committed yet; None: it was not asked for, or the subscription has not begun."""
    lag_seconds: int | None
    """The age of the oldest of them, 0 when there is none; None as before."""
    parked_events: int = 0
    """How many are set aside, since an event of their key could not be processed; they are not among the others."""


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A name under which the hub keeps cursors, and shares the partitions of event types out among streams."""

    id: str
    owning_application: str
    event_types: list[str]
    consumer_group: str
    read_from: str
    """Where it began: begin, end or cursors."""
    created_at: str
    updated_at: str
    initial_cursors: list[dict[str, Any]] = msgspec.field(default_factory=list)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    authorization: dict[str, Any] | None = None
    partitions: list[SubscribedPartition] | None = None
    """Who has each of them; None: it was not asked for."""


class ParkedEvent(msgspec.Struct, frozen=True):
    """An event that waits, since it or one of its key before it could not be processed."""

    offset: int
    event: dict[str, Any]


class ParkedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key whose events wait, since one of them could not be processed."""

    id: str
    event_type: str
    partition: int
    key: str | None
    """None: an event without a key, which waits alone."""
    attempts: int
    """How often the first of them was sent."""
    parked_at: str
    state: str
    """parked, or retrying: it is sent again."""
    events: int
    """How many wait."""
    first_offset: int
    last_offset: int


class ParkedKeyDetails(ParkedKey, frozen=True, kw_only=True):
    """A parked key, and the first of its events."""

    items: list[ParkedEvent]


class _WirePartition(msgspec.Struct):
    partition: str
    state: str
    stream_id: str = ""
    assignment_type: str | None = None
    unconsumed_events: int | None = None
    consumer_lag_seconds: int | None = None
    parked_events: int = 0


class _WireStatus(msgspec.Struct):
    event_type: str
    partitions: list[_WirePartition]


class WireStats(msgspec.Struct):
    """Statistics, in the shape in which a hub sends them."""

    items: list[_WireStatus]


class WireCursor(msgspec.Struct):
    """A cursor, in the shape in which a hub sends it: its offset is that of the last event consumed."""

    partition: str
    offset: str
    event_type: str = ""


class WireCursors(msgspec.Struct):
    """Cursors, in the shape in which a hub sends them."""

    items: list[WireCursor]


class _WireParkedEvent(msgspec.Struct):
    offset: str
    event: dict[str, Any]


class WireParked(msgspec.Struct):
    """A parked key, in the shape in which a hub sends it."""

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
    """Parked keys, in the shape in which a hub sends them."""

    items: list[WireParked]


def subscription_of(shown: Mapping[str, Any]) -> Subscription:
    """Return a subscription from what a hub shows of it.

    Raises:
        msgspec.ValidationError: it is none.
    """
    found = msgspec.convert(shown, Subscription)
    if "status" not in shown:
        return found
    status = msgspec.convert(shown["status"], list[_WireStatus])
    return msgspec.structs.replace(found, partitions=partitions_of(status))


def partitions_of(status: Iterable[_WireStatus]) -> list[SubscribedPartition]:
    """Return the partitions by event type and number."""
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
    """Return the cursors by event type and partition.

    Raises:
        BadCursor: one of them has no offset that is known here.
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
    """Return a parked key with the events of it that are shown."""
    items = [ParkedEvent(int(each.offset), each.event) for each in shown.items or ()]
    return ParkedKeyDetails(**_parked_members(shown), items=items)


def as_wire(cursors: Iterable[SubscriptionCursor | Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return cursors as a hub takes them; what is a mapping is one already.

    >>> as_wire([SubscriptionCursor("order.placed", 0, 1, 42)])[0]["offset"]
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
