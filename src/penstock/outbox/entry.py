"""What goes into one row of the outbox, checked before anything is written."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import msgspec

from penstock.core.document import document, fill_metadata
from penstock.core.event import NewEvent, check_event, check_headers, check_key, check_size
from penstock.errors import EventTooLarge, InvalidEvent, PenstockError

PARTITION_MAX: Final = 2**31 - 1

Say = Callable[[Any], Any]
"""Tells the key, the headers or the partition of an event, which it is given as the service handed it in."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An event that can go into the outbox."""

    data: str
    key: str | None
    headers: str | None
    partition: int | None


def check_entries(events: Sequence[Any], key: Say, headers: Say, partition: Say) -> list[Entry]:
    """Check each of *events*, with its key, headers and partition.

    Raises:
        InvalidEvent, EventTooLarge: for the first that cannot be published; field `index` counts from 0.
        TypeError: a key, headers or a partition is not of the type that it must be of.
    """
    entries = []
    for index, event in enumerate(events):
        try:
            if isinstance(event, NewEvent):
                entries.append(_entry(event.data, event.key, event.headers, event.partition))
            else:
                entries.append(_entry(event, key(event), headers(event), partition(event)))
        except (InvalidEvent, EventTooLarge) as error:
            raise _at(index, len(events), error) from None
    return entries


def fill(entries: Sequence[Entry], category: str) -> list[Entry]:
    """Give the events of a business or data event type an id and a time where they lack them.

    Raises:
        InvalidEvent, EventTooLarge: the metadata is not an object, or the event has grown too large.
    """
    if category == "undefined":
        return list(entries)
    filled = []
    for index, entry in enumerate(entries):
        try:
            filled.append(_with_metadata(entry))
        except (InvalidEvent, EventTooLarge) as error:
            raise _at(index, len(entries), error) from None
    return filled


def as_json(entries: Sequence[Entry]) -> str:
    """Return *entries* as the one JSON text that the insert takes."""
    return msgspec.json.encode([(entry.data, entry.key, entry.headers, entry.partition) for entry in entries]).decode()


def _entry(event: Any, key: Any, headers: Any, partition: Any) -> Entry:
    raw = check_event(document(event))
    return Entry(raw.decode(), _key(key), _headers(headers), _partition(partition))


def _with_metadata(entry: Entry) -> Entry:
    filled = fill_metadata(entry.data.encode(), eid=uuid4, occurred_at=_now)
    check_size(filled)
    return msgspec.structs.replace(entry, data=filled.decode())


def _now() -> datetime:
    return datetime.now(UTC)


def _key(key: Any) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str):
        raise TypeError(f"a key is a string, not {key!r}")
    check_key(key, line=1)
    return key


def _headers(headers: Any) -> str | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise TypeError(f"headers are a mapping of strings to strings, not {headers!r}")
    return check_headers(dict(headers), line=1)


def _partition(partition: Any) -> int | None:
    if partition is None:
        return None
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"a partition is an integer, not {partition!r}")
    if not 0 <= partition <= PARTITION_MAX:
        raise InvalidEvent(reason=f"there is no partition {partition}")
    return partition


def _at(index: int, count: int, error: InvalidEvent | EventTooLarge) -> PenstockError:
    """Say of *error* which of *count* events it is about, in place of the line that the core knows."""
    fields = {name: value for name, value in error.fields.items() if name != "line"}
    which = f"event {index}" if count > 1 else "the event"
    if isinstance(error, InvalidEvent):
        return InvalidEvent(f"{which}: {fields['reason']}", index=index, **fields)
    size, limit = fields["size"], fields["limit"]
    return EventTooLarge(f"{which} has {size} bytes, more than the {limit} that one may have", index=index, **fields)
