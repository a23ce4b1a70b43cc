"""What goes into one row of the outbox, checked before anything is written."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from penstock.core.events.encoding import encode_event, fill_metadata
from penstock.core.events.event import NewEvent, check_events, check_headers, check_key, check_sizes, one_line
from penstock.core.log.acceptance import ParsedBatch, accept
from penstock.errors import EventTooLarge, InvalidEvent, PartitionRefused, PenstockError
from penstock.outbox.event_types import Known

PARTITION_MAX: Final = 2**31 - 1
AT_ONCE: Final = 1_000
"""So many events are decoded at once."""
_encode: Final = msgspec.json.Encoder().encode

Say = Callable[[Any], Any]
"""Tells the key, the headers or the partition of an event, which it is given as the service handed it in."""


class Entries(NamedTuple):
    """Events that can go into the outbox as far as that needs no event type."""

    events: Sequence[NewEvent]
    batch: ParsedBatch | None
    """The same decoded; None: they are too many to be held decoded."""


def check_entries(events: Sequence[Any], key: Say, headers: Say, partition: Say) -> Entries:
    """Check each of *events*, with its key, headers and partition.

    Raises:
        InvalidEvent, EventTooLarge: for the first that cannot be published; field `index` counts from 0.
        TypeError: a key, headers or a partition is not of the type that it must be of.
    """
    entries: list[NewEvent] = []
    for index, event in enumerate(events):
        try:
            if isinstance(event, NewEvent):
                entries.append(_entry(event.data, event.key, event.headers, event.partition))
            else:
                entries.append(_entry(event, key(event), headers(event), partition(event)))
        except InvalidEvent as error:
            raise _at(index, len(events), error) from None
    if len(entries) <= AT_ONCE:
        return Entries(entries, next(_batches(entries), None))
    deque(_batches(entries), maxlen=0)
    return Entries(entries, None)


def ready(known: Known, entries: Entries) -> Sequence[NewEvent]:
    """Return *entries* as they go into the outbox, if the event type takes all of them.

    Those of a business or data event type get an id and a time where they lack them. Where there is no event type they
    stay as they are.

    Raises:
        InvalidEvent, EventTooLarge, PartitionRefused: for the first that the hub would refuse; field `index` counts
            from 0.
    """
    if known.event_type is None or known.placing is None:
        return entries.events
    events, batch = entries
    if known.event_type.category != "undefined":
        events, batch = [*_filled(events)], None
    for each in [batch] if batch else _batches(events):
        try:
            accept(known.event_type, each, known.placing)
        except (InvalidEvent, EventTooLarge, PartitionRefused) as error:
            raise _at(error.line, len(events), error) from None
    return events


def as_row(event: NewEvent) -> dict[str, str | int | None]:
    """Return the columns of *event* by their names."""
    headers = _encode(event.headers).decode() if event.headers else None
    data = one_line(bytes(event.data)).decode()
    return {"data": data, "key": event.key, "headers": headers, "partition": event.partition}


def as_json(events: Sequence[NewEvent]) -> str:
    """Return *events* as the one JSON text that the insert takes."""
    return _encode([[*as_row(event).values()] for event in events]).decode()


def _entry(event: Any, key: Any, headers: Any, partition: Any) -> NewEvent:
    return NewEvent.of(encode_event(event), key=_key(key), headers=_headers(headers), partition=_partition(partition))


def _batches(events: Sequence[NewEvent]) -> Iterator[ParsedBatch]:
    """Yield *events* decoded, a limited number at a time.

    Raises:
        InvalidEvent, EventTooLarge: for the first that cannot be one; field `index` counts from 0.
    """
    for start in range(0, len(events), AT_ONCE):
        piece = events[start : start + AT_ONCE]
        lines = range(start, start + len(piece))
        try:
            raws = [bytes(event.data) for event in piece]
            check_sizes(raws, lines)
            yield ParsedBatch(piece, raws, check_events(raws, lines), lines)
        except (InvalidEvent, EventTooLarge) as error:
            raise _at(error.line, len(events), error) from None


def _filled(events: Sequence[NewEvent]) -> Iterator[NewEvent]:
    for index, event in enumerate(events):
        try:
            filled = fill_metadata(bytes(event.data), eid=uuid4, occurred_at=_now)
        except InvalidEvent as error:
            raise _at(index, len(events), error) from None
        yield NewEvent.of(filled, key=event.key, headers=event.headers, partition=event.partition)


def _now() -> datetime:
    return datetime.now(UTC)


def _key(key: Any) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str):
        raise TypeError(f"a key is a string, not {key!r}")
    check_key(key, line=1)
    return key


def _headers(headers: Any) -> dict[str, str] | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise TypeError(f"headers are a mapping of strings to strings, not {headers!r}")
    own = dict(headers)
    check_headers(own, line=1)
    return own


def _partition(partition: Any) -> int | None:
    if partition is None:
        return None
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"a partition is an integer, not {partition!r}")
    if not 0 <= partition <= PARTITION_MAX:
        raise InvalidEvent(reason=f"there is no partition {partition}")
    return partition


def _at(index: int | None, count: int, error: InvalidEvent | EventTooLarge | PartitionRefused) -> PenstockError:
    """Say of *error* which of *count* events it is about, in place of the line that the core knows."""
    fields = {name: value for name, value in error.fields.items() if name != "line"}
    which = f"event {index}" if count > 1 else "the event"
    if isinstance(error, EventTooLarge):
        told = error.detail.partition(": ")[2].replace("the event", which, 1)
    else:
        told = f"{which}: {error.reason}"
    return type(error)(told, index=index, **fields)
