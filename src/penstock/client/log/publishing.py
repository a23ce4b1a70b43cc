"""Publishes events as feed lines, in batches, each sent again only where nothing can be done twice.

Invariants:
    An event is turned into bytes once; what is sent again is the same bytes, with the same eid and occurred_at.
    A batch is sent again only when the server has surely not taken it: nothing was sent, or the answer was 503 with
    Retry-After.
    A batch of which that is not sure is reported as OutcomeUnknown.

An event on its way out, which knows afterwards where it has come to.
"""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from penstock.client.registry import EventTypes, hub_address
from penstock.core.events.encoding import encode_event, fill_metadata, is_one_event
from penstock.core.events.event import NewEvent, check_event, check_size
from penstock.errors import (
    AlreadyPublished,
    BadParameter,
    ConnectionLost,
    EventTooLarge,
    InvalidEvent,
    OutcomeUnknown,
    PenstockError,
    ServerError,
)
from penstock.wire.http import END, TAKE, Exchange, Request, fetch, is_undone, patiently, refusal
from penstock.wire.log.zeroeventhub import NDJSON

BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = 4_000_000

Key: TypeAlias = str | Callable[[Any], str | None] | None
"""The key of all events, or how to find each one's from the event as it was handed in."""


@dataclass(frozen=True, slots=True)
class Published:
    """What has been published by one call."""

    count: int = 0
    """Events that are durably in the feed."""
    byte_count: int = 0
    """Bytes that were sent for them."""
    cursors: Mapping[int, str] = field(default_factory=dict)
    """Partition to the cursor just after the last of them: read from there to see what follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How events are packed into requests; one request is one transaction of the hub."""

    event_count: int = BATCH_EVENTS
    byte_count: int = BATCH_BYTES

    def __post_init__(self) -> None:
        for name, value in (("batch_events", self.event_count), ("batch_bytes", self.byte_count)):
            if type(value) is not int or value < 1:
                raise BadParameter(parameter=name, value=value, allowed="a whole number, 1 or more")


class Publishing:
    """The protocol side of publishing to one hub.

    Args:
        url: The hub's address.
        event_types: Where the category of an event type is looked up.
        retry_timeout: Seconds for which a batch is tried again where that is safe.
        clock: Seconds that never go back.
        now: The time of day, for `occurred_at`.
        new_id: A fresh id, for `eid`.
    """

    def __init__(
        self,
        url: str,
        event_types: EventTypes,
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
        self, event_type: str, key: Key, batching: Batching, progress: Callable[[Published], object] | None
    ) -> Exchange[Published]:
        """Take events and publish them until there are no more.

        Raises:
            OutcomeUnknown: it is not known whether the batch was published; those before it were.
            PenstockError: the batch was not published; those before it were: `published` events.
        """
        category = yield from self._event_types.category(event_type)
        done = Published()
        lines: list[bytes] = []
        size = 0
        while (event := (yield TAKE)) is not END:
            try:
                line = self.line(event, key, category != "undefined")
            except (InvalidEvent, EventTooLarge) as error:
                place = {"line": done.count + len(lines) + 1, "published": done.count}
                raise type(error)(**error.fields | place) from error
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

    def line(self, event: Any, key: Key, has_metadata: bool) -> bytes:
        """Return the line that publishes *event*; one that *has_metadata* gets an id and a time where it has none."""
        given = event if isinstance(event, NewEvent) else None
        raw = raw_of(event if given is None else given.data)
        own_key = given.key if given is not None else None
        if own_key is None:
            own_key = key(event) if callable(key) else key
        return self.line_of(raw, own_key, given, has_metadata)

    def line_of(self, raw: bytes, key: str | None, given: NewEvent | None, has_metadata: bool) -> bytes:
        """Return the line that publishes *raw*, with what accompanies it: see `line`."""
        if has_metadata:
            raw = fill_metadata(raw, eid=self._new_id, occurred_at=self._now)
            check_size(raw)
        return feed_line(raw, key, given)

    def _publish_batch(
        self, event_type: str, lines: list[bytes], done: Published, progress: Callable[[Published], object] | None
    ) -> Exchange[Published]:
        body = b"".join(lines)
        request = Request(
            method="POST",
            url=hub_address(self._url, "feeds", event_type),
            headers={"content-type": NDJSON, "accept": "application/json"},
            body=body,
        )
        try:
            answer = yield from patiently(lambda: _send(request), is_undone, self._retry_timeout, self._clock)
        except PenstockError as error:
            self._event_types.forget(event_type)
            raise _after(error, done, len(lines)) from error.__cause__
        done = Published(done.count + answer.count, done.byte_count + len(body), {**done.cursors, **answer.cursors})
        if progress is not None:
            progress(done)
        return done


def each_event(events: Any) -> Iterable[Any]:
    """Return the events of which *events* consists: itself, or each that it yields."""
    return (events,) if is_one_event(events) or not isinstance(events, Iterable) else events


def async_each_event(events: Any) -> Iterable[Any] | AsyncIterable[Any]:
    """Return the events of which *events* consists, as `each_event`; those that an async iterable yields, too."""
    return events if isinstance(events, AsyncIterable) else each_event(events)


def new_event(event: Any, key: str | None = None) -> NewEvent:
    """Return what a producer calls an event as it is handed in; with *key*, where it has none of its own."""
    given = event if isinstance(event, NewEvent) else NewEvent.of(encode_event(event))
    return given if given.key is not None or key is None else msgspec.structs.replace(given, key=key)


class _Receipt(msgspec.Struct):
    count: int
    cursors: dict[int, str] = {}


def feed_line(raw: bytes, key: str | None = None, given: NewEvent | None = None) -> bytes:
    r"""Return the line that publishes the event *raw*, with what accompanies it.

    >>> feed_line(b'{"a":1}', "k")
    b'{"data":{"a":1},"key":"k"}\n'
    """
    rest: dict[str, Any] = {}
    if key is not None:
        rest["key"] = key
    if given is not None and given.headers:
        rest["headers"] = given.headers
    if given is not None and given.partition is not None:
        rest["partition"] = given.partition
    tail = b"," + msgspec.json.encode(rest)[1:] if rest else b"}"
    return b'{"data":%b%b\n' % (raw, tail)


def raw_of(event: Any) -> bytes:
    """Return what an event holds as it is published, on one line.

    Raises:
        InvalidEvent, EventTooLarge: it is none.
    """
    raw = encode_event(event)
    if isinstance(event, str | bytes | bytearray | memoryview | msgspec.Raw) or b"\n" in raw or b"\r" in raw:
        return check_event(raw)  # Raw JSON within an event may bring line ends, and anything behind them.
    # What has just been encoded is valid, and on one line.
    if not raw.startswith(b"{"):
        raise InvalidEvent(reason="an event is a JSON object")
    check_size(raw)
    return raw


def _send(request: Request) -> Exchange[_Receipt]:
    try:
        answer = yield from fetch(request)
    except ConnectionLost as error:
        raise OutcomeUnknown(reason=str(error)) from error
    if answer.status == 200:
        try:
            return msgspec.json.decode(answer.body, type=_Receipt)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise OutcomeUnknown(reason=f"{request.url} gave no receipt but {answer.body[:200]!r}") from error
    refused = refusal(answer)
    if type(refused) is ServerError and answer.status >= 500 and not is_undone(refused):
        raise OutcomeUnknown(reason=str(refused)) from refused
    raise refused


def _after(error: PenstockError, done: Published, batch_count: int) -> PenstockError:
    """Say in *error* what the call had published before it, and count lines from the call's first event."""
    error.published = done.count
    if isinstance(error, OutcomeUnknown):
        error.doubtful = batch_count
    if done.count:
        line = error.fields.get("line")
        if isinstance(line, int):
            error.fields["line"] = line + done.count
        error.detail += f" (after {done.count} events of this call that were published)"
    return error


Make: TypeAlias = Callable[[bytes, str | None, NewEvent | None, bool], bytes]
"""See `Publishing.line_of`."""


class Publication(NamedTuple):
    """Under which number, and where, an event is stored."""

    group: str
    partition: int
    epoch: int
    sequence: int
    offset: int


class Event:
    """An event that an idempotent producer is to publish, once.

    What it holds is turned into bytes when it is first sent, with its `eid` and `occurred_at`: however often it is sent
    again, they are the same.

    Args:
        data: A mapping, a dataclass, a msgspec Struct or a pydantic model; a DataChange of one of them; the bytes or
            the text of a JSON object.
        key: Its key, where it is to have another one than its event type's partition key fields give.
        headers: Its own headers.
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
        """Return *value* as an event: itself, if it is one."""
        if isinstance(value, Event):
            return value
        if not isinstance(value, NewEvent):
            return cls(value)
        event = cls(value.data, key=value.key, headers=value.headers)
        event._wanted = value.partition  # The hub refuses it where it is sent elsewhere.
        return event

    @property
    def published_sequence(self) -> int | None:
        """Its number; None: it is not known to be published."""
        return None if self._publication is None else self._publication.sequence

    @property
    def published_epoch(self) -> int | None:
        """The epoch that it was published with; None: it is not known to be published."""
        return None if self._publication is None else self._publication.epoch

    @property
    def published_group(self) -> str | None:
        """The producer group that it was published by; None: it is not known to be published."""
        return None if self._publication is None else self._publication.group

    @property
    def published_partition(self) -> int | None:
        """Where it was published to; None: it is not known to be published."""
        return None if self._publication is None else self._publication.partition

    @property
    def published_offset(self) -> int | None:
        """Its offset there; None: it is not known to be published."""
        return None if self._publication is None else self._publication.offset

    def line(self, has_metadata: bool, make: Make) -> bytes:
        """Return the line that publishes it, which *make* makes once: one that *has_metadata*, or one without."""
        if self._line is None or self._line[0] != has_metadata:
            self._raw, given = raw_of(self.data), None
            if self.headers or self._wanted is not None:
                given = NewEvent.of(self._raw, headers=self.headers, partition=self._wanted)
            self._line = has_metadata, make(self._raw, self.key, given, has_metadata)
        return self._line[1]

    def is_like(self, other: "Event") -> bool:
        """Tell whether *other*, of the same object, still holds what this one has been sent with."""
        if (self.key, self.headers, self._wanted) != (other.key, other.headers, other._wanted):
            return False
        try:
            return raw_of(other.data) == self._raw
        except (PenstockError, TypeError):  # It cannot even be sent by now.
            return False

    def published(self, publication: Publication) -> None:
        """Take note that it is stored."""
        self._publication = publication

    def __repr__(self) -> str:
        where = "" if self._publication is None else f", published_sequence={self._publication.sequence}"
        return f"Event({self.data!r}{where})"


def check_unpublished(events: Iterable[Event]) -> None:
    """Raise AlreadyPublished where one of *events* is known to be published."""
    for event in events:
        if event.published_sequence is not None:
            raise AlreadyPublished(partition=event.published_partition, sequence=event.published_sequence)
