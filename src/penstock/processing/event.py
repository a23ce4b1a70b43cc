"""What is looked at in an event that was read: its id, its parents, and whose it is."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import EventUnusable
from penstock.wire.log.reader.pages import FeedEvent

EID_CHARS_MAX: Final = 255
"""The hub's are UUIDs, of 36; other servers may have others, and an index of a database takes no more."""
_decode: Final = msgspec.json.Decoder().decode
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class EventOrigin(NamedTuple):
    """Where events come from."""

    name: str
    """The event type's name, or that of another server's feed."""
    category: str | None
    """None: unknown."""
    definition: Mapping[str, Any]
    """As the hub shows it; empty where it is unknown."""


def source_of(event_type: str | Mapping[str, Any]) -> EventOrigin:
    """Return what is known of *event_type*: its definition as `Client.event_type` gives it, or a name alone.

    Raises:
        TypeError: it is neither.

    >>> source_of({"name": "order.placed", "category": "business"}).category
    'business'
    """
    given: Any = event_type
    if isinstance(given, str):
        return EventOrigin(given, None, {})
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return EventOrigin(given["name"], str(given.get("category")).lower(), given)
    raise TypeError(
        f"an event type is told by its definition, as Client.event_type gives it, or by name: {event_type!r}"
    )


def body(event: Any) -> Any:
    """Return the event itself: as JSON says it, of one that was read from a feed; as it is, of any other."""
    if not isinstance(event, FeedEvent):
        return event
    return _decode(event.raw) if event.is_typed else event.data


def partition_of(event: Any) -> int:
    """Return the partition from which *event* was read; 0 where that is not known."""
    return event.partition if isinstance(event, FeedEvent) else 0


def metadata_of(event: Any) -> Mapping[str, Any]:
    """Return the metadata of *event*; empty where it has none."""
    if isinstance(event, FeedEvent) and event.is_typed:
        return event.metadata
    whole = body(event)
    found = whole.get("metadata") if isinstance(whole, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def eid_of(event: Any, index: int, event_type: str | None) -> str:
    """Return the id of *event*, a UUID in lower case, since its letters' case says nothing.

    Raises:
        EventUnusable: it has none, or one that is no id; names it by its *index* in the batch.

    >>> eid_of({"metadata": {"eid": "0D3E36C0-0E5E-4A3B-9B4E-8F1A3F2B6C7D"}}, 0, None)
    '0d3e36c0-0e5e-4a3b-9b4e-8f1a3f2b6c7d'
    """
    eid = metadata_of(event).get("eid")
    if type(eid) is not str or not 0 < len(eid) <= EID_CHARS_MAX or "\0" in eid:
        reason = describe_mismatch(eid, f"a text of 1 to {EID_CHARS_MAX} characters")
        raise EventUnusable.of("eid-missing", **_named(event, index, event_type), reason=reason)
    return one_case(eid)


def parents_of(event: Any, index: int, event_type: str | None) -> tuple[str, ...]:
    """Return the ids that *event* names in `metadata.parent_eids`; none where it names none.

    Raises:
        EventUnusable: it names something that is no id.
    """
    parents = metadata_of(event).get("parent_eids")
    if parents is None:
        return ()
    if type(parents) is list and all(type(parent) is str for parent in parents):
        return tuple(dict.fromkeys(map(one_case, parents)))
    raise unplaced(event, index, event_type, f"metadata.parent_eids {describe_mismatch(parents, 'a list of ids')}")


def unplaced(event: Any, index: int | None, event_type: str | None, reason: str) -> EventUnusable:
    """Return the error that says of *event* why it cannot be put in order."""
    return EventUnusable.of(
        "order-unknown", **_named(event, index, event_type), eid=metadata_of(event).get("eid"), reason=reason
    )


def _named(event: Any, index: int | None, event_type: str | None) -> dict[str, Any]:
    metadata = metadata_of(event)
    name = event_type if event_type is not None else metadata.get("event_type")
    said = {"of": name, "partition": partition_of(event), "eid": metadata.get("eid")}
    place = "an event" if index is None else f"event {index} of the batch"
    told = ", ".join([place, *(f"{what} {value!r}" for what, value in said.items() if value is not None)])
    return {"event_type": name, "partition": partition_of(event), "index": index, "event": told}


def one_case(eid: str) -> str:
    """Return a UUID in lower case, since the case of its letters says nothing; any other id as it is."""
    return eid if eid.islower() or not _UUID.fullmatch(eid) else eid.lower()
