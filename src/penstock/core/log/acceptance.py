"""Decides whether an event type accepts events: by schema, size, partition, key and headers.

The hub applies these rules when it publishes, and the outbox before it inserts, so both accept the same events. The
partition of an event follows from the event type's strategy; `penstock.core.events.partitioning` has the rules of
`hash`.

The option `max_event_bytes` bounds the lines of a feed, since some readers stop at long lines. The limit applies to the
longest line in which any read can send the event: version 1, all headers, any partition, the line end included.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.events.encoding import describe_mismatch
from penstock.core.events.event import (
    NewEvent,
    check_events,
    check_headers,
    check_key,
    check_kind,
    check_size,
    derive_headers,
    find_first_large,
    is_key,
    remove_line_breaks,
)
from penstock.core.events.metadata import WRITTEN_BYTES_MAX, count_written_bytes, drop_server_members
from penstock.core.events.partitioning import hash_partition, key_text
from penstock.core.registry.event_type import EventType
from penstock.errors import EventTooLarge, InvalidEvent
from penstock.schema.traversal import Path, format_pointer, key_path

PartitionRule = Callable[[str | None, NewEvent, dict[str, Any], int], tuple[int, str | None]]
"""Returns the partition and the key of an event, from: the given key, the new event, the decoded event, its line
number."""


class Partitioner:
    """Assigns partitions to the events of one event type, by its partition strategy."""

    def __init__(
        self,
        event_type: EventType,
        *,
        accepts_keys: bool = True,
        partition: int | None = None,
    ) -> None:
        """Create the partitioner of *event_type*.

        Args:
            event_type: the event type.
            accepts_keys: whether callers can send a key beside an event; for error texts.
            partition: the partition to which all events were sent, if any.
        """
        self._event_type = event_type
        self._accepts_keys = accepts_keys
        self._partition = partition
        self._count = event_type.partition_count
        self._is_data = event_type.category == "data"
        prefix = "data." if self._is_data else ""
        self._paths: list[Path] = [key_path(prefix + field) for field in event_type.partition_key_fields]
        strategies: dict[str, PartitionRule] = {
            "hash": self._hash_key,
            "user_defined": self._read_wanted,
            "random": self._draw,
        }
        self.place = strategies[event_type.partition_strategy]
        self.is_random = event_type.partition_strategy == "random"

    def choose_random(self, events: int) -> Sequence[int]:
        """Return a random partition for each of *events* events; if they were sent to a partition, that one."""
        if self._partition is not None:
            return [self._partition] * events
        if events == 1:
            return [int(random.random() * self._count)]  # noqa: S311 - not a secret
        return random.choices(range(self._count), k=events)  # noqa: S311 - not a secret

    def _draw(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:  # noqa: ARG002
        return self.choose_random(1)[0], key

    def _hash_key(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str]:  # noqa: ARG002
        texts: tuple[str, ...]
        if key is not None:
            texts = (key,)
        else:
            texts = self._key_texts(event, line)
            key = ",".join(texts)
            if not is_key(key):
                self._refuse_key(key, texts, line)
        partition = hash_partition(texts, self._count)
        if self._partition not in (None, partition):
            reason = f"its key {key!r} belongs to partition {partition}, not to {self._partition}"
            raise InvalidEvent.of(
                _REFUSED, line=line, reason=f"{reason}: send it there, or to no partition in particular"
            )
        return partition, key

    def _key_texts(self, event: dict[str, Any], line: int) -> tuple[str, ...]:
        try:
            return tuple([key_text(event, path) for path in self._paths])
        except KeyError:
            missing = f"is missing{' in its data' if self._is_data else ''}"
            reason = f"partition key field {self._find_missing_field(event)!r} {missing}; give the event the field"
            instead = ", or a key beside it" if self._accepts_keys else ""
            raise InvalidEvent.of(_REFUSED, line=line, reason=reason + instead) from None

    def _find_missing_field(self, event: dict[str, Any]) -> str:
        """Return the first partition key field that *event* lacks, as the event type names it."""
        fields = zip(self._event_type.partition_key_fields, self._paths, strict=True)
        return next(field for field, path in fields if not _has(event, path))

    def _refuse_key(self, key: str, texts: Sequence[str], line: int) -> None:
        """Raise for the first field whose text is not a valid key, or for all if together they are too long."""
        places = list(map(format_pointer, self._paths))
        for place, text in zip(places, texts, strict=True):
            check_key(text, line, _REFUSED, where=place)
        check_key(key, line, _REFUSED, where=", ".join(places))

    def _read_wanted(self, key: str | None, new: NewEvent, event: dict[str, Any], line: int) -> tuple[int, str | None]:
        asked: object = new.partition
        if asked is None and type(metadata := event.get("metadata")) is dict:
            asked = metadata.get("partition")
        if asked is None:
            asked = self._partition
        place = _partition_of(asked, self._count)
        if place is not None and self._partition in (None, place):
            return place, key
        if place is not None:
            raise InvalidEvent.of(
                _REFUSED, line=line, reason=f"it asks for partition {place}, and was sent to {self._partition}"
            )
        reason = (
            f"its partition {describe_mismatch(asked, 'one that there is')}; {self._event_type.name!r} is user_defined"
        )
        raise InvalidEvent.of(_REFUSED, line=line, reason=f"{reason} and has partitions 0 to {self._count - 1}")


def _partition_of(asked: object, count: int) -> int | None:
    """Return the partition that *asked*, a number or its decimal digits, names among *count*; None if there is none.

    >>> _partition_of(3, 4), _partition_of("3", 4), _partition_of("03", 4), _partition_of(True, 4)
    (3, 3, None, None)
    """
    text = str(asked) if type(asked) in (int, str) else ""
    is_number = text.isascii() and text.isdigit() and len(text) < 6 and (text == "0" or text[0] != "0")
    return int(text) if is_number and int(text) < count else None


def _has(event: dict[str, Any], path: Path) -> bool:
    try:
        key_text(event, path)
    except KeyError:
        return False
    return True


_FRAME: Final = b'{"partition":32767,"headers":,"data":}\n'
_encode: Final = msgspec.json.encode


def check_line_sizes(
    event_type: EventType,
    events: Sequence[NewEvent],
    decoded: Sequence[dict[str, Any]],
    *,
    keys: Sequence[str | None],
    kinds: Sequence[str | None],
    lines: Sequence[int],
    extra_bytes: int = 0,
) -> None:
    """Raise EventTooLarge for the first of *events* whose line can be longer than its event type allows.

    *decoded* are the same events, decoded; *keys* and *kinds* are those that the log will store; *lines* are their
    numbers in errors. The hub writes up to *extra_bytes* more into each than `line_bytes` counts.
    """
    limit = event_type.max_event_bytes
    if limit is None:
        return
    for new, event, key, kind, line in zip(events, decoded, keys, kinds, lines, strict=True):
        size = line_bytes(event_type, new, event, key=key, kind=kind) + extra_bytes
        if size > limit:
            detail = f"line {line}: the event takes up to {size} bytes as a line of the feed with its headers"
            more = f"more than the max_event_bytes of {event_type.name!r}, {limit}"
            raise EventTooLarge(f"{detail}, {more}", line=line, size=size, limit=limit)


def line_bytes(
    event_type: EventType, new: NewEvent, event: dict[str, Any], *, key: str | None, kind: str | None
) -> int:
    """Return the length of the longest line in which a feed can send an event, the line end included.

    For a business or data event this counts the most that a hub can write into the metadata, and not the bytes that it
    has written.
    """
    raw = remove_line_breaks(bytes(new.data))
    headers = derive_headers(event, event_type=event_type.name, kind=kind, key=key) | (new.headers or {})
    written = 0 if event_type.category == "undefined" else WRITTEN_BYTES_MAX - count_written_bytes(raw)
    return len(_FRAME) + len(_encode(headers)) + len(raw) + written


KEY_HEADER: Final = "ce_partitionkey"
KIND_HEADER: Final = "ce_type"
_REFUSED: Final = "partition-refused"
"""The code of errors about events that have no partition, or another than the requested one."""
_COMPACTION_KEY: Final = "#/metadata/partition_compaction_key"
_UNEXPLAINED: Final = "is not what the schema allows"


class ParsedBatch(NamedTuple):
    """Events that were published together: as new events, as bytes, and decoded."""

    events: Sequence[NewEvent]
    raws: list[bytes]
    decoded: list[dict[str, Any]]
    lines: Sequence[int]
    """The numbers that errors give to the events."""

    @classmethod
    def parse(cls, events: Sequence[NewEvent], lines: Sequence[int] | None = None) -> "ParsedBatch":
        """Decode *events*; without *lines* they are numbered from 1.

        Raises:
            MalformedEvent: one of the events is not a valid event.
        """
        raws = [bytes(event.data) for event in events]
        lines = lines or range(1, len(raws) + 1)
        return cls(events, raws, check_events(raws, lines), lines)

    def release(self) -> None:
        """Free the decoded events one by one: no other thread runs while one is freed."""
        while self.decoded:
            self.decoded.pop()


class AcceptedEvents(NamedTuple):
    """The partitions, keys, kinds and headers of a batch; one item for each event."""

    partitions: Sequence[int]
    keys: Sequence[str | None]
    kinds: Sequence[str | None]
    """None: the kind is the event type's name."""
    headers: Sequence[str | None]
    """The event's own headers as JSON; None: it has none."""


def accept(
    event_type: EventType,
    batch: ParsedBatch,
    partitioner: Partitioner,
    *,
    strict: bool = False,
    validated: bool = False,
    explains: bool = True,
    extra_bytes: int = 0,
) -> AcceptedEvents:
    """Check all events of *batch*, and return the values that the log stores beside them; accept all events, or raise.

    All events are validated, then partitioned, as in Nakadi; then the size of their lines is checked. The first failure
    is raised.

    Args:
        event_type: the event type that the events are published to.
        batch: the events.
        partitioner: assigns the partitions.
        strict: refuse metadata that only a hub writes; otherwise it is dropped from the decoded events.
        validated: the events were validated before; skip the schema and the sizes.
        explains: explain which part of an event the schema does not allow. Explaining can take much longer than
            validating.
        extra_bytes: the hub writes so many bytes more into the metadata than it usually does.

    Raises:
        InvalidEvent, EventTooLarge: an event is not valid.
        InvalidEvent: an event has no partition, or no key.
    """
    if not strict and event_type.category != "undefined":
        drop_server_members(batch.decoded, batch.raws)
    if not validated:
        _validate(event_type, batch, explains=explains)
    partitions, keys = assign_partitions(event_type, batch, partitioner)
    kinds, headers = _describe_events(event_type, batch)
    if not validated:
        check_line_sizes(
            event_type, batch.events, batch.decoded, keys=keys, kinds=kinds, lines=batch.lines, extra_bytes=extra_bytes
        )
    return AcceptedEvents(partitions, keys, kinds, headers)


def assign_partitions(
    event_type: EventType, batch: ParsedBatch, partitioner: Partitioner
) -> tuple[Sequence[int], Sequence[str | None]]:
    """Return each event's partition, and its key.

    Raises:
        InvalidEvent: a given key is not a valid key.
        InvalidEvent: an event has no partition, or no key.
    """
    given = [new.headers.get(KEY_HEADER) if new.key is None and new.headers else new.key for new in batch.events]
    compacted = event_type.is_compacted
    if not compacted and partitioner.is_random:
        for line, new, key in zip(batch.lines, batch.events, given, strict=True):
            if key is not None:
                _check_key(key, new, line)
        return partitioner.choose_random(len(given)), given
    partitions, keys = [], []
    for line, new, own, event in zip(batch.lines, batch.events, given, batch.decoded, strict=True):
        if own is not None:
            _check_key(own, new, line)
        partition, key = partitioner.place(own, new, event, line)
        partitions.append(partition)
        keys.append(_compaction_key(event, line) if compacted else key)
    return partitions, keys


def _validate(event_type: EventType, batch: ParsedBatch, *, explains: bool) -> None:
    """Raise for the first event that is too large, or that the schema does not allow."""
    validator = event_type.validator
    large = find_first_large(batch.raws)  # Events from the first too large one on are not validated.
    invalid = validator.find_first_invalid(batch.decoded[:large], batch.raws[:large])
    if invalid is not None:
        reason = validator.explain(batch.decoded[invalid]) if explains else _UNEXPLAINED
        raise InvalidEvent(line=batch.lines[invalid], reason=reason)
    if large is not None:
        check_size(batch.raws[large], batch.lines[large])


def _check_key(key: str, new: NewEvent, line: int) -> None:
    """Raise InvalidEvent unless *key*, which was given with *new*, is a valid key."""
    check_key(key, line, where=f"header {KEY_HEADER!r}" if new.key is None else None)


def _compaction_key(event: dict[str, Any], line: int) -> str:
    metadata = event.get("metadata")
    key = metadata.get("partition_compaction_key") if type(metadata) is dict else None
    if type(key) is not str or not key:
        reason = f"{_COMPACTION_KEY}: {describe_mismatch(key, 'a text of at least one character')}"
        raise InvalidEvent.of(_REFUSED, line=line, reason=reason)
    check_key(key, line, _REFUSED, where=_COMPACTION_KEY)
    return key


def _describe_events(event_type: EventType, batch: ParsedBatch) -> tuple[list[str | None], list[str | None]]:
    """Return each event's kind, None if it is the event type's name, and its own headers."""
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
