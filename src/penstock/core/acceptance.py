"""Decides whether an event type takes events: by schema, size, partition, key and headers.

The hub decides by this when it publishes, and the outbox before it inserts, so that both take the same events.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from penstock.core.document import unlike
from penstock.core.event import (
    NewEvent,
    check_events,
    check_headers,
    check_key,
    check_kind,
    check_size,
    first_large,
)
from penstock.core.event_type import EventType
from penstock.core.line_size import check_line_sizes
from penstock.core.metadata import drop_server_members
from penstock.core.placing import Placing
from penstock.errors import InvalidEvent, PartitionRefused

KEY_HEADER: Final = "ce_partitionkey"
KIND_HEADER: Final = "ce_type"
_COMPACTION_KEY: Final = "#/metadata/partition_compaction_key"
_UNTOLD: Final = "is not what the schema allows"


class Batch(NamedTuple):
    """Events that are handed in together: as they came, as bytes, and decoded."""

    events: Sequence[NewEvent]
    raws: list[bytes]
    decoded: list[dict[str, Any]]
    lines: Sequence[int]
    """The numbers by which errors call the events."""

    @classmethod
    def parse(cls, events: Sequence[NewEvent], lines: Sequence[int] | None = None) -> "Batch":
        """Decode *events*; *lines* are counted from 1 unless given.

        Raises:
            MalformedEvent: one of them cannot be an event.
        """
        raws = [bytes(event.data) for event in events]
        lines = lines or range(1, len(raws) + 1)
        return cls(events, raws, check_events(raws, lines), lines)


class Accepted(NamedTuple):
    """The keys, kinds, headers and partitions of a batch, by event."""

    partitions: Sequence[int]
    keys: Sequence[str | None]
    kinds: Sequence[str | None]
    """None: the event type's name."""
    headers: Sequence[str | None]
    """The event's own headers as JSON; None: it has none."""


def accept(
    event_type: EventType,
    batch: Batch,
    placing: Placing,
    *,
    strict: bool = False,
    validated: bool = False,
    tells: bool = True,
) -> Accepted:
    """Return what *event_type* makes of each event of *batch*; all of them are accepted, or none.

    First all are validated, then all get a partition, then the lines that they make are measured; the first event that
    fails ends it (digest of Nakadi's contract, 3.2).

    Args:
        event_type: what the events have to be.
        batch: the events.
        placing: chooses the partitions.
        strict: refuse metadata that only a hub writes; else it is dropped from the decoded events.
        validated: do not hold the events against the schema again.
        tells: say what is wrong with an event that the schema does not allow. That can take much longer than to find
            that it is not allowed.

    Raises:
        InvalidEvent, EventTooLarge: an event is not valid.
        PartitionRefused: an event has no partition, or no key.
    """
    if not strict and event_type.category != "undefined":
        drop_server_members(batch.decoded)
    if not validated:
        _validate(event_type, batch, tells=tells)
    partitions, keys = place(event_type, batch, placing)
    kinds, headers = _described(event_type, batch)
    if not validated:
        check_line_sizes(event_type, batch.events, batch.decoded, keys=keys, kinds=kinds, lines=batch.lines)
    return Accepted(partitions, keys, kinds, headers)


def place(event_type: EventType, batch: Batch, placing: Placing) -> tuple[Sequence[int], Sequence[str | None]]:
    """Return each event's partition, and its key.

    Raises:
        InvalidEvent: what was handed in as a key cannot be one.
        PartitionRefused: an event has no partition, or no key.
    """
    given = [new.headers.get(KEY_HEADER) if new.key is None and new.headers else new.key for new in batch.events]
    compacted = event_type.compacted
    if not compacted and placing.is_random:
        for line, new, key in zip(batch.lines, batch.events, given, strict=True):
            if key is not None:
                _check_given(key, new, line)
        return placing.random(len(given)), given
    partitions, keys = [], []
    for line, new, own, event in zip(batch.lines, batch.events, given, batch.decoded, strict=True):
        if own is not None:
            _check_given(own, new, line)
        partition, key = placing.place(own, new, event, line)
        partitions.append(partition)
        keys.append(_compaction_key(event, line) if compacted else key)
    return partitions, keys


def _validate(event_type: EventType, batch: Batch, *, tells: bool) -> None:
    """Raise for the first event that the schema does not allow, or that is too large."""
    validator = event_type.validator
    large = first_large(batch.raws)  # What is too large is not looked into.
    invalid = validator.first_invalid(batch.decoded[:large], batch.raws[:large])
    if invalid is not None:
        reason = validator.why(batch.decoded[invalid]) if tells else _UNTOLD
        raise InvalidEvent(line=batch.lines[invalid], reason=reason)
    if large is not None:
        check_size(batch.raws[large], batch.lines[large])


def _check_given(key: str, new: NewEvent, line: int) -> None:
    """Raise InvalidEvent unless *key*, with which *new* was handed in, can be one."""
    check_key(key, line, where=f"header {KEY_HEADER!r}" if new.key is None else None)


def _compaction_key(event: dict[str, Any], line: int) -> str:
    metadata = event.get("metadata")
    key = metadata.get("partition_compaction_key") if type(metadata) is dict else None
    if type(key) is not str or not key:
        reason = f"{_COMPACTION_KEY}: {unlike(key, 'a text of at least one character')}"
        raise PartitionRefused(line=line, reason=reason)
    check_key(key, line, PartitionRefused, where=_COMPACTION_KEY)
    return key


def _described(event_type: EventType, batch: Batch) -> tuple[list[str | None], list[str | None]]:
    """Return each event's kind, None for that of the event type, and its own headers."""
    events, lines = batch.events, batch.lines
    kinds: list[str | None] = [None] * len(events)
    headers: list[str | None] = [None] * len(events)
    if event_type.category == "data":
        kinds = [event["data_type"] for event in batch.decoded]
    described = [number for number, new in enumerate(events) if new.headers]
    if not described and event_type.category != "data":
        return kinds, headers
    for number in described:
        own = events[number].headers or {}
        headers[number] = check_headers(own, lines[number])
        kinds[number] = own.get(KIND_HEADER, kinds[number])
    for kind in dict.fromkeys(kinds):
        if kind is not None and kind != event_type.name:
            first = kinds.index(kind)
            is_header = KIND_HEADER in (events[first].headers or {})
            check_kind(kind, lines[first], f"header {KIND_HEADER!r}" if is_header else "#/data_type")
    return [None if kind == event_type.name else kind for kind in kinds], headers
