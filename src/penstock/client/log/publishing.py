"""Publish events as lines of a feed, in batches; `Event` is an event of an idempotent producer.

Invariants:
    Each event is encoded once: a retry sends the same bytes, with the same eid and occurred_at.
    A batch is sent again only if the server has certainly not stored it: nothing was sent, or the response was 503 with
        Retry-After.
    A batch whose outcome is uncertain is reported as OutcomeUnknown.
"""

from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec

from penstock.client.registry import EventTypeProtocol, hub_address
from penstock.core.events.encoding import encode_event, encode_together, is_one_event
from penstock.core.events.event import (
    NewEvent,
    check_event,
    check_events,
    check_size,
    find_first_large,
    remove_all_line_breaks,
)
from penstock.core.events.metadata import fill_metadata, fill_metadata_of, has_filled_metadata
from penstock.errors import (
    AlreadyUsed,
    ConnectionLost,
    EventTooLarge,
    InvalidEvent,
    MalformedEvent,
    OutcomeUnknown,
    PenstockError,
    ServerError,
)
from penstock.wire.arguments import check_callable, check_count
from penstock.wire.http import Exchange, HttpRequest, TakeEvents, error_of, fetch, is_not_applied, retry_until
from penstock.wire.log.reader.pages import FeedEvent
from penstock.wire.log.zeroeventhub import NDJSON

BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = 4_000_000
TAKEN_MAX: Final = 256
"""Maximum number of events that are taken and encoded together: they are all in memory, whatever their size."""

Key: TypeAlias = str | Callable[[Any], str | None] | None
"""The key of all events, or a function that returns the key of an event as it was passed in."""


@dataclass(frozen=True, slots=True)
class Published:
    """The totals of one call of `publish`."""

    count: int = 0
    """Number of events that are durably stored."""
    byte_count: int = 0
    """Bytes that were sent for them."""
    cursors: Mapping[int, str] = field(default_factory=dict)
    """Cursor just after the last published event, by partition: read from there to get later events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Maximum size of a batch, which is one request and one transaction of the hub."""

    event_count: int = BATCH_EVENTS
    byte_count: int = BATCH_BYTES

    def __post_init__(self) -> None:
        check_count("batch_events", self.event_count, 1)
        check_count("batch_bytes", self.byte_count, 1)


class PublishProtocol:
    """Protocol of publishing to one hub.

    Args:
        url: The hub's address.
        event_types: The hub's event types, for their categories.
        retry_timeout: Seconds for which a batch is retried, where that is safe.
        clock: Monotonic time in seconds.
        now: The current time, for `occurred_at`.
        new_id: Return a new id, for `eid`.
    """

    def __init__(
        self,
        url: str,
        event_types: EventTypeProtocol,
        *,
        retry_timeout: float,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        new_id: Callable[[], UUID],
    ) -> None:
        self._url = url
        self._event_types = event_types
        self._retry_timeout = retry_timeout
        self._clock = clock
        self._now = now
        self._new_id = new_id

    def publish(
        self, event_type: str, key: Key, batching: BatchLimits, progress: Callable[[Published], object] | None
    ) -> Exchange[Published]:
        """Publish events until there are no more; return the totals.

        Raises:
            OutcomeUnknown: The batch may or may not be stored; the batches before it are.
            PenstockError: The batch was refused. Field `published` has the number of events stored before it.
        """
        if key is not None and not isinstance(key, str):
            check_callable("key", key)
        if progress is not None:
            check_callable("progress", progress)
        category = yield from self._event_types.category(event_type)
        done = Published()
        lines: list[bytes] = []
        size = 0
        while events := (yield TakeEvents(_count_wanted(batching, len(lines), size, done))):
            made = self.encode_lines(events, key, category != "undefined")
            if isinstance(made, list) and size + (more := sum(map(len, made))) <= batching.byte_count:
                lines += made
                size += more
                made = []
            encoded = iter(made)
            while True:
                try:
                    line = next(encoded, None)
                except (InvalidEvent, EventTooLarge) as error:
                    place = {"line": done.count + len(lines) + 1, "published": done.count}
                    raise type(error).of(error.code, **error.fields | place) from error
                if line is None:
                    break
                if lines and size + len(line) > batching.byte_count:
                    done = yield from self._publish_batch(event_type, lines, done, progress)
                    lines, size = [], 0
                lines.append(line)
                size += len(line)
            if len(lines) == batching.event_count:
                done = yield from self._publish_batch(event_type, lines, done, progress)
                lines, size = [], 0
        if lines:
            done = yield from self._publish_batch(event_type, lines, done, progress)
        return done

    def encode_lines(self, events: list[Any], key: Key, has_metadata: bool) -> Iterable[bytes]:
        """Return the feed lines of *events*; see `line`. An error is raised in place of its event's line.

        Where each can only be right, they are a list.
        """
        raws = encode_together(events)
        if raws is None or find_first_large(raws) is not None:
            return (self.line(event, key, has_metadata) for event in events)
        if callable(key) or has_metadata:
            return self._frame_lines(events, raws, key, has_metadata)
        tail = _encode_tail(key, None)
        return [b'{"data":%b%b' % (raw, tail) for raw in raws]

    def _frame_lines(self, events: list[Any], raws: list[bytes], key: Key, has_metadata: bool) -> Iterator[bytes]:
        """Yield the feed lines of *events*, which are dicts; *raws* are their encodings."""
        tail = _encode_tail(None if callable(key) else key, None)
        for event, encoded in zip(events, raws, strict=True):
            raw = encoded
            if callable(key):
                tail = _encode_tail(key(event), None)
            if has_metadata:
                raw = fill_metadata_of(event, encoded, eid=self._new_id, occurred_at=self._now)
                check_size(raw)
            yield b'{"data":%b%b' % (raw, tail)

    def line(self, event: Any, key: Key, has_metadata: bool) -> bytes:
        """Return the feed line of *event*. With *has_metadata* the event gets an eid and a time if it has none."""
        given = event if isinstance(event, NewEvent) else None
        raw = encode_payload(event if given is None else given.data)
        own_key = given.key if given is not None else None
        if own_key is None:
            own_key = key(event) if callable(key) else key
        return self.line_of(raw, own_key, given, has_metadata)

    def line_of(
        self, raw: bytes, key: str | None, given: NewEvent | None, has_metadata: bool, *, is_filled: bool = False
    ) -> bytes:
        """Return the feed line of the encoded event *raw*; see `line`. Metadata that *is_filled* is not looked at."""
        if has_metadata and not is_filled:
            raw = fill_metadata(raw, eid=self._new_id, occurred_at=self._now)
            check_size(raw)
        return encode_line(raw, key, given)

    def _publish_batch(
        self, event_type: str, lines: list[bytes], done: Published, progress: Callable[[Published], object] | None
    ) -> Exchange[Published]:
        body = b"".join(lines)
        request = HttpRequest(
            method="POST",
            url=hub_address(self._url, "feeds", event_type),
            headers={"content-type": NDJSON, "accept": "application/json"},
            body=body,
        )
        try:
            answer = yield from retry_until(lambda: _send(request), is_not_applied, self._retry_timeout, self._clock)
        except PenstockError as error:
            self._event_types.forget(event_type)
            raise _add_published(error, done, len(lines)) from error.__cause__
        done = Published(done.count + answer.count, done.byte_count + len(body), {**done.cursors, **answer.cursors})
        if progress is not None:
            progress(done)
        return done


def each_event(events: Any) -> Iterable[Any]:
    """Return an iterable of the events in *events*: the one event itself, or its items.

    Raises:
        TypeError: *events* is a number, None or a truth value.
    """
    if events is None or isinstance(events, int | float):
        wanted = "pass an event, such as a dict, a dataclass or JSON text, or an iterable of events"
        raise TypeError(f"events is {events!r}; {wanted}")
    return (events,) if is_one_event(events) or not isinstance(events, Iterable) else events


def async_each_event(events: Any) -> Iterable[Any] | AsyncIterable[Any]:
    """Return an iterable of the events in *events*, as `each_event` does, or an asynchronous iterable as it is."""
    return events if isinstance(events, AsyncIterable) else each_event(events)


def new_event(event: Any, key: str | None = None) -> NewEvent:
    """Return *event* as a NewEvent, with *key* if it has no key."""
    given = event if isinstance(event, NewEvent) else NewEvent.of(encode_event(event))
    return given if given.key is not None or key is None else msgspec.structs.replace(given, key=key)


class _Receipt(msgspec.Struct):
    count: int
    cursors: dict[int, str] = {}


def _count_wanted(batching: BatchLimits, line_count: int, size: int, done: Published) -> int:
    """Return the number of events to take next: as many as fit into the batch if they are like those so far."""
    count, byte_count = done.count + line_count, done.byte_count + size
    fitting = (batching.byte_count - size) * count // byte_count if count else 1
    return max(1, min(batching.event_count - line_count, fitting, TAKEN_MAX))


def encode_line(raw: bytes, key: str | None = None, given: NewEvent | None = None) -> bytes:
    r"""Return the feed line of the encoded event *raw* with its key, headers and partition.

    >>> encode_line(b'{"a":1}', "k")
    b'{"data":{"a":1},"key":"k"}\n'
    """
    return b'{"data":%b%b' % (raw, _encode_tail(key, given))


def _encode_tail(key: str | None, given: NewEvent | None) -> bytes:
    """Return the end of a feed line, after its data."""
    rest: dict[str, Any] = {}
    if key is not None:
        rest["key"] = key
    if given is not None and given.headers:
        rest["headers"] = given.headers
    if given is not None and given.partition is not None:
        rest["partition"] = given.partition
    return b",%b\n" % msgspec.json.encode(rest)[1:] if rest else b"}\n"


def encode_payload(event: Any) -> bytes:
    """Return *event* as JSON on one line.

    Raises:
        InvalidEvent: *event* is not a JSON object.
        EventTooLarge: *event* exceeds the maximum size.
        TypeError: *event* is a FeedEvent, or contains a value that has no form in JSON.
    """
    if isinstance(event, FeedEvent):
        raise TypeError("FeedEvent has no form in JSON: publish its `raw` or its `data`")
    raw = encode_event(event)
    if isinstance(event, str | bytes | bytearray | memoryview | msgspec.Raw) or b"\n" in raw or b"\r" in raw:
        return check_event(raw)  # Raw JSON within an event may contain line breaks, and anything after them.
    # Encoded just now: the event is valid, and on one line.
    if not raw.startswith(b"{"):
        raise InvalidEvent(reason="an event is a JSON object")
    check_size(raw)
    return raw


def _send(request: HttpRequest) -> Exchange[_Receipt]:
    try:
        answer = yield from fetch(request)
    except ConnectionLost as error:
        raise OutcomeUnknown(reason=str(error)) from error
    if answer.status == 200:
        try:
            return msgspec.json.decode(answer.body, type=_Receipt)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise OutcomeUnknown(reason=f"{request.url} gave no receipt but {answer.body[:200]!r}") from error
    refused = error_of(answer)
    if type(refused) is ServerError and answer.status >= 500 and not is_not_applied(refused):
        raise OutcomeUnknown(reason=str(refused)) from refused
    raise refused


def _add_published(error: PenstockError, done: Published, batch_count: int) -> PenstockError:
    """Return *error* with the number of events published before it, and lines counted over the whole call."""
    error.published = done.count
    if isinstance(error, OutcomeUnknown):
        error.doubtful = batch_count
    if done.count:
        line = error.fields.get("line")
        if isinstance(line, int):
            error.fields["line"] = line + done.count
        error.detail += f" (after {done.count} events of this call that were published)"
    return error


class Make(Protocol):
    """Returns the feed line of an encoded event: `PublishProtocol.line_of`."""

    def __call__(
        self, raw: bytes, key: str | None, given: NewEvent | None, has_metadata: bool, *, is_filled: bool = False
    ) -> bytes:
        """See `PublishProtocol.line_of`."""


class Publication(NamedTuple):
    """Where an event is stored: its producer group, partition, epoch, sequence number and offset."""

    group: str
    partition: int
    epoch: int
    sequence: int
    offset: int


class CheckedData(NamedTuple):
    """The data of an event that were checked together with those of others."""

    raw: bytes
    """The event as JSON on one line."""
    is_filled: bool
    """True if its metadata has an id and a time."""


class Event:
    """An event for an idempotent producer, which publishes it once.

    The data is encoded when it is first sent, together with its `eid` and `occurred_at`; retries send the same bytes.

    Args:
        data: A mapping, a dataclass, a msgspec Struct, a pydantic model, a DataChange of one of these, or JSON text or
            bytes.
        key: The key, to override the event type's partition key fields.
        headers: The event's own headers.
    """

    __slots__ = ("__weakref__", "_line", "_publication", "_raw", "_wanted", "data", "headers", "key")

    def __init__(self, data: Any, *, key: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.data = data
        self.key = key
        self.headers = headers
        self._line: tuple[bool, bytes] | None = None
        self._raw = b""
        self._wanted: int | None = None
        self._publication: Publication | None = None

    @classmethod
    def of(cls, value: Any) -> "Event":
        """Return *value* as an Event; an Event is returned as it is."""
        if isinstance(value, Event):
            return value
        if not isinstance(value, NewEvent):
            return cls(value)
        event = cls(value.data, key=value.key, headers=value.headers)
        event._wanted = value.partition  # The hub refuses the event in another partition.
        return event

    @property
    def published_sequence(self) -> int | None:
        """The sequence number; None if it is not known to be published."""
        return None if self._publication is None else self._publication.sequence

    @property
    def published_epoch(self) -> int | None:
        """The epoch; None if it is not known to be published."""
        return None if self._publication is None else self._publication.epoch

    @property
    def published_group(self) -> str | None:
        """The producer group; None if it is not known to be published."""
        return None if self._publication is None else self._publication.group

    @property
    def published_partition(self) -> int | None:
        """The partition; None if it is not known to be published."""
        return None if self._publication is None else self._publication.partition

    @property
    def published_offset(self) -> int | None:
        """The offset in the partition; None if it is not known to be published."""
        return None if self._publication is None else self._publication.offset

    def line(self, has_metadata: bool, make: Make, checked: "CheckedData | None" = None) -> bytes:
        """Return the feed line, which *make* encodes once for each value of *has_metadata*.

        *checked* is what `check_together` has returned for this event, if its data was checked.
        """
        if self._line is None or self._line[0] != has_metadata:
            (self._raw, is_filled), given = checked or CheckedData(encode_payload(self.data), False), None
            if self.headers or self._wanted is not None:
                given = NewEvent.of(self._raw, headers=self.headers, partition=self._wanted)
            self._line = has_metadata, make(self._raw, self.key, given, has_metadata, is_filled=is_filled)
        return self._line[1]

    @staticmethod
    def check_together(events: "Sequence[Event]") -> "Sequence[CheckedData | None]":
        """Check all *events* in one pass if the data of all are bytes, and return what was checked of each.

        Otherwise, or if one is not valid, all are None: `line` then checks each, and says which is wrong.
        """
        unchecked = [None] * len(events)
        if any(each._line is not None or type(each.data) not in _ENCODED for each in events):
            return unchecked
        raws = [bytes(each.data) for each in events]
        if find_first_large(raws) is not None:
            return unchecked
        try:
            decoded = check_events(raws)
        except MalformedEvent:
            return unchecked
        return list(map(CheckedData, remove_all_line_breaks(raws), map(has_filled_metadata, decoded)))

    def is_like(self, other: "Event") -> bool:
        """Return whether *other*, made from the same object, still has the content that this event was sent with."""
        if (self.key, self.headers, self._wanted) != (other.key, other.headers, other._wanted):
            return False
        try:
            return encode_payload(other.data) == self._raw
        except (PenstockError, TypeError):  # The event has become invalid.
            return False

    def mark_published(self, publication: Publication) -> None:
        """Record where the event is stored."""
        self._publication = publication

    def __repr__(self) -> str:
        where = "" if self._publication is None else f", published_sequence={self._publication.sequence}"
        return f"Event({self.data!r}{where})"


_ENCODED: Final = frozenset([bytes, msgspec.Raw])


def check_unpublished(events: Iterable[Event]) -> None:
    """Raise AlreadyUsed if one of *events* is known to be published."""
    for event in events:
        if event.published_sequence is not None:
            raise AlreadyUsed.of(
                "already-published", partition=event.published_partition, sequence=event.published_sequence
            )
