"""Checks the events for the outbox, and makes its rows of them."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from penstock.core.events.encoding import encode_event
from penstock.core.events.event import NewEvent, check_events, check_headers, check_key, check_sizes, remove_line_breaks
from penstock.core.events.metadata import fill_metadata
from penstock.core.log.acceptance import ParsedBatch, accept
from penstock.errors import EventTooLarge, InvalidEvent, PenstockError
from penstock.outbox.event_types import CachedEventType

PARTITION_MAX: Final = 2**31 - 1
AT_ONCE: Final = 1_000
"""Number of events that are decoded at once."""
_encode: Final = msgspec.json.Encoder().encode

Accessor = Callable[[Any], Any]
"""Returns the key, the headers or the partition of an event that the service has passed."""


class OutboxEntries(NamedTuple):
    """Events that have passed all checks that need no event type."""

    events: Sequence[NewEvent]
    batch: ParsedBatch | None
    """The same events decoded; None: they are too many to keep them decoded."""


def check_entries(events: Sequence[Any], key: Accessor, headers: Accessor, partition: Accessor) -> OutboxEntries:
    """Check each of *events*, with its key, headers and partition.

    Raises:
        InvalidEvent, EventTooLarge: for the first event that cannot be published; field `index` counts from 0.
        TypeError: a key, headers or a partition has an unsupported type.
    """
    entries: list[NewEvent] = []
    for index, event in enumerate(events):
        try:
            if isinstance(event, NewEvent):
                entries.append(_check_entry(event.data, event.key, event.headers, event.partition))
            else:
                entries.append(_check_entry(event, key(event), headers(event), partition(event)))
        except InvalidEvent as error:
            raise _error_at(index, len(events), error) from None
    if len(entries) <= AT_ONCE:
        return OutboxEntries(entries, next(_parse_batches(entries), None))
    deque(_parse_batches(entries), maxlen=0)
    return OutboxEntries(entries, None)


def prepare_rows(known: CachedEventType, entries: OutboxEntries) -> Sequence[NewEvent]:
    """Return *entries* in the form in which they are inserted, if the event type accepts all of them.

    Missing ids and times are filled in for a business or data event type. If the event type does not exist, the events
    are not changed.

    Raises:
        InvalidEvent, EventTooLarge: for the first event that the hub would refuse; field `index`
            counts from 0.
    """
    if known.event_type is None or known.partitioner is None:
        return entries.events
    events, batch = entries
    if known.event_type.category != "undefined":
        events, batch = [*_fill_metadata(events)], None
    for each in [batch] if batch else _parse_batches(events):
        try:
            accept(known.event_type, each, known.partitioner)
        except (InvalidEvent, EventTooLarge) as error:
            raise _error_at(error.line, len(events), error) from None
    return events


def to_row(event: NewEvent) -> dict[str, str | int | None]:
    """Return the columns of *event* by name."""
    headers = _encode(event.headers).decode() if event.headers else None
    data = remove_line_breaks(bytes(event.data)).decode()
    return {"data": data, "key": event.key, "headers": headers, "partition": event.partition}


def to_json(events: Sequence[NewEvent]) -> str:
    """Return *events* as the JSON text that is the parameter of the insert."""
    return _encode([[*to_row(event).values()] for event in events]).decode()


def _check_entry(event: Any, key: Any, headers: Any, partition: Any) -> NewEvent:
    return NewEvent.of(
        encode_event(event), key=_check_key(key), headers=_check_headers(headers), partition=_check_partition(partition)
    )


def _parse_batches(events: Sequence[NewEvent]) -> Iterator[ParsedBatch]:
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
            raise _error_at(error.line, len(events), error) from None


def _fill_metadata(events: Sequence[NewEvent]) -> Iterator[NewEvent]:
    for index, event in enumerate(events):
        try:
            filled = fill_metadata(bytes(event.data), eid=uuid4, occurred_at=_now)
        except InvalidEvent as error:
            raise _error_at(index, len(events), error) from None
        yield NewEvent.of(filled, key=event.key, headers=event.headers, partition=event.partition)


def _now() -> datetime:
    return datetime.now(UTC)


def _check_key(key: Any) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str):
        raise TypeError(f"a key is a string, not {key!r}")
    check_key(key, line=1)
    return key


def _check_headers(headers: Any) -> dict[str, str] | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise TypeError(f"headers are a mapping of strings to strings, not {headers!r}")
    own = dict(headers)
    check_headers(own, line=1)
    return own


def _check_partition(partition: Any) -> int | None:
    if partition is None:
        return None
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"a partition is an integer, not {partition!r}")
    if not 0 <= partition <= PARTITION_MAX:
        raise InvalidEvent(reason=f"there is no partition {partition}")
    return partition


def _error_at(index: int | None, count: int, error: InvalidEvent | EventTooLarge) -> PenstockError:
    """Return *error* with the index of the event instead of its line."""
    fields = {name: value for name, value in error.fields.items() if name != "line"}
    which = f"event {index}" if count > 1 else "the event"
    if isinstance(error, EventTooLarge):
        detail = error.detail.partition(": ")[2].replace("the event", which, 1)
    else:
        detail = f"{which}: {error.reason}"
    return type(error).of(error.code, detail, index=index, **fields)
