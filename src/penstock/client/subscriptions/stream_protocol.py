"""Protocol of a subscription's streams, and the batches that they bring.

Invariants:
    The reader gets the beginning and the end of each stream, with the reason; then the next stream begins.
    A batch is committed with the stream that sent it, as long as the hub accepts it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any, Final, Generic

import msgspec

from penstock.client.http.exchanges import JsonExchange, RetryPolicy, decode_response
from penstock.client.subscriptions.protocol import subscription_address
from penstock.core.events.decoding import EventDecoder
from penstock.core.subscriptions.assignment import FeedPartition, PoisonOffset
from penstock.errors import (
    BadParameter,
    ConnectionLost,
    MalformedAnswer,
    PenstockError,
    SubscriptionBusy,
)
from penstock.wire.arguments import check_count, check_items, check_seconds, check_type
from penstock.wire.http import (
    ERROR_BYTES_MAX,
    MORE,
    Exchange,
    HttpRequest,
    HttpResponse,
    Pause,
    ReaderItem,
    ResponseHead,
    RetryBackoff,
    error_of,
    is_transient,
    join_url,
    read_body,
)
from penstock.wire.log.nakadi import offset_text, parse_offset
from penstock.wire.log.reader.pages import Data, FeedEvent, LineReader, PageDetails
from penstock.wire.subscriptions import BATCHES, BatchLine

BATCHES_AHEAD: Final = 10
"""Default number of whole batches sent ahead of the committed ones."""
ALONE_TIMES: Final = 2
"""Number of commit timeouts for which a stream without partitions is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamParameters:
    """How a subscription's streams send events. Times are in seconds."""

    batch_limit: int = 100
    """Maximum number of events in a batch."""
    batch_flush_timeout: float = 0.1
    """Seconds after which a smaller batch is sent. With a batch_limit of 1 each event is sent at once."""
    batch_timespan: int = 0
    """Maximum difference between the receive times of a batch's events; 0 is unlimited."""
    max_uncommitted_events: int = 0
    """Maximum number of events sent but not committed, over all partitions; 0 is ten whole batches."""
    partitions: Collection[FeedPartition] = ()
    """The partitions to read, as pairs of event type and number; empty is an equal share of the remaining ones."""
    commit_timeout: int = 60
    """Seconds without a commit after which a stream with uncommitted events ends, unless its lease is extended."""
    stream_timeout: int = 0
    """Seconds after which a stream ends; 0 is about an hour."""
    stream_limit: int = 0
    """Number of events after which a stream ends, once they are committed; 0 is unlimited."""

    def __post_init__(self) -> None:
        for name in ("batch_limit", "commit_timeout"):
            check_count(name, getattr(self, name), 1)
        check_seconds("batch_flush_timeout", self.batch_flush_timeout, is_positive=True, is_finite=True)
        for name in ("batch_timespan", "max_uncommitted_events", "stream_timeout", "stream_limit"):
            check_count(name, getattr(self, name), 0)
        allowed = "a list of pairs of event type and partition, such as [('order.placed', 0)]"
        check_items("partitions", self.partitions, tuple, allowed)

    @property
    def silence(self) -> float:
        """Maximum seconds between two lines of a live stream."""
        return float(max(self.batch_flush_timeout, ALONE_TIMES * self.commit_timeout))

    def members(self) -> dict[str, Any]:
        """Return the members of the request.

        >>> StreamParameters(batch_limit=5, partitions=[("a.b", 3)]).members()["partitions"]
        [{'event_type': 'a.b', 'partition': '3'}]
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["max_uncommitted_events"] = self.max_uncommitted_events or BATCHES_AHEAD * self.batch_limit
        found["partitions"] = [
            {"event_type": name, "partition": str(partition)} for name, partition in sorted(self.partitions)
        ]
        return {name: value for name, value in found.items() if value}


_PARKED: Final = "parked-"


class SubscriptionBatch(ReaderItem, Generic[Data]):
    """Events of one partition, in their order. Each is decoded on first access.

    Args:
        stream_id: The stream that sent it.
        line: The line that it was sent in.
        decoder: Decodes events into a type; None decodes JSON into dicts and lists.
    """

    __slots__ = ("_decoder", "_events", "_line", "partition", "stream_id")
    _events: Sequence[FeedEvent[Data]]

    def __init__(self, stream_id: str, line: BatchLine, decoder: EventDecoder | None = None) -> None:
        self.stream_id = stream_id
        """The stream that sent the batch, with which it is committed."""
        self.partition = int(line.cursor.partition)
        self._line = line
        self._decoder = decoder

    @property
    def event_type(self) -> str:
        """The event type."""
        return self._line.cursor.event_type

    @property
    def place(self) -> FeedPartition:
        """The event type and the partition."""
        return self.event_type, self.partition

    @property
    def offset(self) -> str:
        """The offset of the last event, in Nakadi's format."""
        return self._line.cursor.offset

    @property
    def offsets(self) -> Sequence[int]:
        """The offsets of the events in their partition, as integers.

        If the hub omitted events of parked keys, it sends the offsets of the others. Other servers do not: for them the
        omitted events are taken to precede the first one.
        """
        said = None if self._line.info is None else self._line.info.offsets
        if said is not None and len(said) == len(self):
            return said
        _, last = parse_offset(self.offset)
        return range(last - len(self) + 1, last + 1)

    @property
    def cursor(self) -> Mapping[str, str]:
        """The cursor that commits the batch, in the hub's format."""
        found: dict[str, str] = msgspec.to_builtins(self._line.cursor)
        return found

    @property
    def debug(self) -> str | None:
        """The hub's debug message, such as that the stream has begun."""
        return self._line.debug

    @property
    def is_parked(self) -> bool:
        """True for events of a parked key that are sent again: committing them moves no position."""
        return self._line.cursor.cursor_token.startswith(_PARKED)

    @property
    def raw(self) -> Sequence[bytes]:
        """The JSON of each event, byte for byte as the hub sent it."""
        return [bytes(each) for each in self._line.events or ()]

    @property
    def events(self) -> Sequence[FeedEvent[Data]]:
        """The events; each is decoded when its `data` is accessed."""
        try:
            return self._events
        except AttributeError:
            info = self._line.info
            raw = None if info is None else info.details
            details = PageDetails(self.event_type, raw) if isinstance(raw, msgspec.Raw) else None
            self._events = [self._event(index, each, details) for index, each in enumerate(self._line.events or ())]
            return self._events

    def __len__(self) -> int:
        return len(self._line.events or ())

    def __repr__(self) -> str:
        place = f"event_type={self.event_type!r}, partition={self.partition}"
        return f"{type(self).__name__}({place}, offset={self.offset!r}, events={len(self)})"

    def _event(self, index: int, raw: msgspec.Raw, details: PageDetails | None) -> FeedEvent[Data]:
        if self._decoder is None:
            return FeedEvent(self.partition, raw, None, details, index)
        return FeedEvent(self.partition, raw, None, details, index, self._decoder, None, index + 1)


MakeBatch = Callable[[str, BatchLine, EventDecoder | None], SubscriptionBatch[Any]]


def cursors_of(batches: Sequence[SubscriptionBatch[Any]]) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return the cursors that commit *batches*, by stream: the last one of each partition."""
    found: dict[str, dict[object, Mapping[str, str]]] = {}
    for each in batches:
        cursors = found.setdefault(each.stream_id, {})
        name: object = each.cursor["cursor_token"] if each.is_parked else each.place
        known = cursors.get(name)
        if known is None or known["offset"] <= each.offset:
            cursors[name] = each.cursor
    return {stream_id: list(cursors.values()) for stream_id, cursors in found.items()}


STREAM_ID: Final = "X-Nakadi-StreamId"
GIVEN_BACK: Final = "The stream was given back"
_JSON: Final = {"content-type": "application/json", "accept": "application/json"}
_LINES: Final = {"content-type": "application/json", "accept": "application/x-json-stream"}


@dataclass(frozen=True, slots=True)
class StreamBegan(ReaderItem):
    """The beginning of a stream."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class StreamEnded(ReaderItem):
    """The end of a stream."""

    stream_id: str
    reason: str
    """Why it ended, in the hub's words or as observed by the client."""
    error: PenstockError | None = None
    """The error of a lost connection; None if the hub ended the stream or it was released."""


class _Made(msgspec.Struct):
    id: str


class StreamProtocol:
    """Protocol of one subscription's streams, which follow one another.

    Args:
        url: The hub's address.
        subscription: The id, or a definition in Nakadi's format, which is created if it does not exist.
        parameters: How the streams send events.
        retry: Retries of a stream that cannot be opened.
        retry_timeout: Seconds for which other requests are retried.
        clock: Return the time in seconds.
        kind: The type of the events' data.
        make: Create a batch from its line.
    """

    def __init__(
        self,
        url: str,
        subscription: str | Mapping[str, Any],
        parameters: StreamParameters,
        *,
        retry: RetryPolicy,
        retry_timeout: float,
        clock: Callable[[], float],
        kind: Any = None,
        make: MakeBatch = SubscriptionBatch,
    ) -> None:
        given: object = subscription  # A caller without types may pass anything.
        if not isinstance(given, str | Mapping):
            allowed = "the id of a subscription, or what to create where it is missing"
            raise BadParameter(parameter="subscription", value=given, allowed=allowed)
        check_type("retry", retry, RetryPolicy, "a RetryPolicy")
        self._url = url
        self.id = subscription if isinstance(subscription, str) else None
        self._definition = None if isinstance(subscription, str) else dict(subscription)
        self.parameters = parameters
        self.retry = retry
        self.retry_timeout = retry_timeout
        self._json = JsonExchange(retry_timeout, clock)
        self._once = JsonExchange(0.0, clock)
        self._decoder = None if kind is None else EventDecoder(kind, "a subscription")
        self._make = make
        self._abandoned: set[str] = set()
        self._uncommitted: dict[FeedPartition, str] = {}
        """The offset of the last batch handed to the reader, by partition, until it is committed."""
        self.stream_id: str | None = None
        """The last stream."""

    def find_subscription(self) -> Exchange[str]:
        """Return the subscription's id; create the subscription if it does not exist."""
        if self.id is None:
            body = msgspec.json.encode(self._definition)
            request = HttpRequest(method="POST", url=join_url(self._url, "subscriptions"), headers=_JSON, body=body)
            answer = yield from self._json.send(request, is_transient, HTTPStatus.OK, HTTPStatus.CREATED)
            self.id = decode_response(answer, _Made).id
        return self.id

    def run(self, *, reconnect: bool) -> Exchange[None]:
        """Yield batches of one stream, or with *reconnect* of one stream after another.

        Raises:
            PenstockError: A stream cannot be opened, and retrying does not help or was tried often enough.
        """
        backoff, failures = RetryBackoff(self.retry.max_delay_seconds), 0
        while True:
            brought = 0
            try:
                ended, brought = yield from self._stream()
            except PenstockError as error:
                if not _is_retryable(error) or (not reconnect and not isinstance(error, ConnectionLost)):
                    raise
                is_orderly, failed = False, error
            else:
                yield ended
                if not reconnect:
                    return
                is_orderly = ended.error is None
                failed = ended.error or ConnectionLost(url=self._url, reason=ended.reason)
                if ended.reason == GIVEN_BACK:
                    continue
            if brought:
                backoff, failures = RetryBackoff(self.retry.max_delay_seconds), 0
                if is_orderly:
                    continue
            failures = 0 if is_orderly else failures + 1  # A feed may be without events for any number of streams.
            if failures == self.retry.max_attempts:
                raise failed
            yield Pause(backoff.delay(failed), None if is_orderly else failed)

    def abandon(self, stream_id: str) -> None:
        """Yield nothing more of a stream; its reader has to be interrupted."""
        self._abandoned.add(stream_id)

    def commit(self, batches: Sequence[SubscriptionBatch[Any]], *, retries: bool = True) -> Exchange[None]:
        """Commit *batches*, with one request for each stream that sent some of them.

        Raises:
            StreamNotFound, CommitRefused: The hub no longer accepts them.
        """
        for stream_id, cursors in cursors_of(batches).items():
            request = HttpRequest(
                method="POST",
                url=subscription_address(self._url, (yield from self.find_subscription()), "cursors"),
                headers={**_JSON, STREAM_ID: stream_id},
                body=msgspec.json.encode({"items": cursors}),
            )
            asks = self._json if retries else self._once
            yield from asks.send(request, is_transient, HTTPStatus.OK, HTTPStatus.NO_CONTENT)
        for batch in batches:
            is_whole = self._uncommitted.get(batch.place, "") <= batch.offset
            if batch.stream_id == self.stream_id and is_whole and not batch.is_parked:
                self._uncommitted.pop(batch.place, None)

    def extend(self, stream_id: str, *, retries: bool = True) -> Exchange[None]:
        """Extend the lease of a stream: restart the time in which it has to commit.

        Raises:
            StreamNotFound: The stream has ended.
        """
        request = HttpRequest(method="POST", url=(yield from self._make_stream_url(stream_id, "lease")), headers=_JSON)
        yield from (self._json if retries else self._once).send(request, is_transient, HTTPStatus.NO_CONTENT)

    def release(
        self,
        stream_id: str,
        keep: Collection[FeedPartition] = (),
        failed: Collection[FeedPartition] | None = None,
        parked: Sequence[PoisonOffset] = (),
    ) -> Exchange[None]:
        """End a stream: its uncommitted events are sent to other consumers at once, except those of *keep*.

        Args:
            stream_id: The stream.
            keep: Partitions whose events are still being handled.
            failed: Partitions that count as failed; None counts all.
            parked: Events that are given up: the hub parks their keys.

        Raises:
            HubUnavailable: The hub did not end it in time; try again.
            StreamNotFound: The stream has ended, and no longer has partitions.
        """
        body: dict[str, Any] = {"keep": _partition_objects(keep)}
        if failed is not None:
            body["failed"] = _partition_objects(failed)
        if parked:
            body["parked"] = [
                {
                    "event_type": each.place[0],
                    "partition": str(each.place[1]),
                    "offset": offset_text(each.epoch, each.offset),
                    "attempts": each.attempts,
                }
                for each in parked
            ]
        url = yield from self._make_stream_url(stream_id, "release")
        request = HttpRequest(method="POST", url=url, headers=_JSON, body=msgspec.json.encode(body))
        yield from self._once.send(request, is_transient, HTTPStatus.NO_CONTENT)

    def release_quietly(self, stream_id: str) -> Exchange[None]:
        """Release a stream. If that fails, it ends when its commit timeout is over.

        Batches handed to the reader and not committed count as failures; others do not.
        """
        with suppress(PenstockError):
            yield from self.release(stream_id, failed=list(self._uncommitted))

    def _note_uncommitted(self, batch: SubscriptionBatch[Any]) -> SubscriptionBatch[Any]:
        if not batch.is_parked:
            self._uncommitted[batch.place] = batch.offset
        return batch

    def _make_stream_url(self, stream_id: str, path: str) -> Exchange[str]:
        return subscription_address(self._url, (yield from self.find_subscription()), "streams", stream_id, path)

    def _stream(self) -> Exchange[tuple[StreamEnded, int]]:
        """Read one stream to its end; return its end and its number of batches."""
        url = subscription_address(self._url, (yield from self.find_subscription()), "events")
        url = join_url(url, query=[("details", 1)])
        body = msgspec.json.encode(self.parameters.members())
        head: ResponseHead = yield HttpRequest(
            method="POST", url=url, headers=_LINES, body=body, wait_seconds=self.parameters.silence
        )
        if head.status != HTTPStatus.OK:
            raise error_of(HttpResponse(url, head.status, head.headers, (yield from read_body(ERROR_BYTES_MAX))))
        stream_id = self.stream_id = head.headers.get(STREAM_ID.lower())
        if stream_id is None:
            raise MalformedAnswer(url=url, reason=f"it has no {STREAM_ID}")
        self._uncommitted.clear()
        yield StreamBegan(stream_id)
        reader, brought, reason = LineReader(url, BATCHES), 0, ""
        try:
            while stream_id not in self._abandoned and (chunk := (yield MORE)):
                for line in reader.feed(chunk):
                    if line.events:
                        brought, reason = brought + 1, ""
                        yield self._note_uncommitted(self._make(stream_id, line, self._decoder))
                    elif line.reason:
                        reason = line.reason
            if stream_id not in self._abandoned:
                reader.finish()
        except ConnectionLost as error:
            if stream_id not in self._abandoned:
                return StreamEnded(stream_id, f"The connection was lost: {error.reason}", error), brought
        if stream_id in self._abandoned:
            self._abandoned.discard(stream_id)
            reason = GIVEN_BACK
        return StreamEnded(stream_id, reason or "The hub did not say why"), brought


def _is_retryable(error: PenstockError) -> bool:
    """Return whether a stream that was refused with *error* may be opened later."""
    return is_transient(error) or isinstance(error, SubscriptionBusy)


def _partition_objects(places: Collection[FeedPartition]) -> list[dict[str, str]]:
    return [{"event_type": name, "partition": str(partition)} for name, partition in sorted(places)]
