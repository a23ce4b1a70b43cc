"""How a consumer wants the events of a subscription: the parameters of its streams.

A batch of a subscription: events of one partition, and the cursor that is committed once they are dealt with.

The protocol side of whoever is sent a subscription's events.

Invariants:
    A stream that has begun is told, and so is its end, with why; then the next one begins.
    What is committed is committed with the stream that was sent it, as long as the hub takes that.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from http import HTTPStatus
from typing import Any, Final, Generic, TypedDict

import msgspec

from penstock.client.http.exchanges import JsonExchange, RetryPolicy, decoded
from penstock.client.subscriptions.protocol import subscription_address
from penstock.core.events.decoding import EventDecoder
from penstock.core.subscriptions.assignment import FeedPartition
from penstock.errors import (
    BadParameter,
    ConnectionLost,
    NoFreeSlots,
    PartitionsTaken,
    PenstockError,
    ResetUnderWay,
    StreamNotFound,
)
from penstock.wire.http import (
    ERROR_BYTES_MAX,
    MORE,
    Answer,
    Backoff,
    Exchange,
    Handed,
    Head,
    Pause,
    Request,
    address,
    is_passing,
    malformed,
    refusal,
    rest,
)
from penstock.wire.log.nakadi import parse_offset
from penstock.wire.log.reader.pages import Data, FeedEvent, LineReader, TypedEvent
from penstock.wire.subscriptions import BATCHES, BatchLine

BATCHES_AHEAD: Final = 10
"""So many whole batches may be sent ahead of what is committed, unless it is said otherwise."""
ALONE_TIMES: Final = 2
"""A stream without a partition says nothing for so many commit timeouts."""


class StreamOptions(TypedDict, total=False):
    """Options of a subscription's streams; see `StreamWish`."""

    batch_limit: int
    batch_flush_timeout: int
    batch_timespan: int
    max_uncommitted_events: int
    partitions: Collection[FeedPartition]
    commit_timeout: int
    stream_timeout: int
    stream_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWish:
    """How a consumer wants its events. Times are seconds."""

    batch_limit: int = 100
    """How many events make a batch; …"""
    batch_flush_timeout: int = 1
    """… a smaller one comes after so long. With a batch_limit of 1 each event comes at once."""
    batch_timespan: int = 0
    """A batch spans no more than so long a time in which its events were received; 0: any."""
    max_uncommitted_events: int = 0
    """How far what is sent may be ahead of what is committed, over all partitions; 0: ten whole batches."""
    partitions: Collection[FeedPartition] = ()
    """The partitions that it wants for itself, as pairs of event type and number; none: its share of the rest."""
    commit_timeout: int = 60
    """So long after the last commit a stream ends of which anything is uncommitted, unless its lease is extended."""
    stream_timeout: int = 0
    """A stream ends after so long; 0: after about an hour."""
    stream_limit: int = 0
    """A stream ends once so many events are sent and committed; 0: it does not."""

    def __post_init__(self) -> None:
        for name, least in (("batch_limit", 1), ("batch_flush_timeout", 1), ("commit_timeout", 1)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise BadParameter(parameter=name, value=value, allowed=f"a whole number, {least} or more")
        for name in ("batch_timespan", "max_uncommitted_events", "stream_timeout", "stream_limit"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise BadParameter(parameter=name, value=value, allowed="a whole number, 0 or more")

    @property
    def silence(self) -> float:
        """How long a stream that is alive may say nothing."""
        return float(max(self.batch_flush_timeout, ALONE_TIMES * self.commit_timeout))

    def members(self) -> dict[str, Any]:
        """Return what a hub is asked for.

        >>> StreamWish(batch_limit=5, partitions=[("a.b", 3)]).members()["partitions"]
        [{'event_type': 'a.b', 'partition': '3'}]
        """
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["max_uncommitted_events"] = self.max_uncommitted_events or BATCHES_AHEAD * self.batch_limit
        found["partitions"] = [
            {"event_type": name, "partition": str(partition)} for name, partition in sorted(self.partitions)
        ]
        return {name: value for name, value in found.items() if value}


def stream_wish(options: StreamOptions) -> StreamWish:
    """Return how events are wanted.

    Raises:
        TypeError: one of them is no option, and probably mistyped.
        BadParameter: a number makes no sense.

    >>> stream_wish({"batch_limit": 10}).batch_limit
    10
    """
    known = StreamOptions.__annotations__
    for stranger in options.keys() - known.keys():
        close = get_close_matches(stranger, known, 1)
        asks = f"; did you mean {close[0]!r}?" if close else f", which has {', '.join(known)}"
        raise TypeError(f"{stranger!r} is no option of a subscription's stream{asks}")
    return StreamWish(**options)


_PARKED: Final = "parked-"


class SubscriptionBatch(Handed, Generic[Data]):
    """Events of one partition, in their order. They are decoded when they are asked for.

    Args:
        stream_id: The stream that was sent it.
        line: The line that it came in.
        decoder: Decodes the events into a type; without it they are what JSON makes of them.
    """

    __slots__ = ("_decoder", "_events", "_line", "partition", "stream_id")
    _events: Sequence[FeedEvent[Data]]

    def __init__(self, stream_id: str, line: BatchLine, decoder: EventDecoder | None = None) -> None:
        self.stream_id = stream_id
        """The stream that was sent it, with which it is committed."""
        self.partition = int(line.cursor.partition)
        self._line = line
        self._decoder = decoder

    @property
    def event_type(self) -> str:
        """What its events are of."""
        return self._line.cursor.event_type

    @property
    def place(self) -> FeedPartition:
        """The event type and the partition."""
        return self.event_type, self.partition

    @property
    def offset(self) -> str:
        """That of its last event, as the hub writes it."""
        return self._line.cursor.offset

    @property
    def offsets(self) -> Sequence[int]:
        """Those of its events in their partition, as whole numbers.

        Where events were left out, since their keys are parked, the hub says which are there. Another server that
        leaves some out is taken to have left them out before the first.
        """
        said = None if self._line.info is None else self._line.info.offsets
        if said is not None and len(said) == len(self):
            return said
        _, last = parse_offset(self.offset)
        return range(last - len(self) + 1, last + 1)

    @property
    def cursor(self) -> Mapping[str, str]:
        """What is committed once its events are dealt with, as the hub takes it."""
        found: dict[str, str] = msgspec.to_builtins(self._line.cursor)
        return found

    @property
    def debug(self) -> str | None:
        """What the hub says beside it, such as that it begins to stream."""
        return self._line.debug

    @property
    def is_parked(self) -> bool:
        """Whether these are events of a parked key, sent again: to commit them moves no position."""
        return self._line.cursor.cursor_token.startswith(_PARKED)

    @property
    def raw(self) -> Sequence[bytes]:
        """The JSON of each event, byte for byte as the hub sent it."""
        return [bytes(each) for each in self._line.events or ()]

    @property
    def events(self) -> Sequence[FeedEvent[Data]]:
        """Its events; each is decoded when its `data` is asked for."""
        try:
            return self._events
        except AttributeError:
            self._events = [self._event(number, raw) for number, raw in enumerate(self._line.events or (), 1)]
            return self._events

    def __len__(self) -> int:
        return len(self._line.events or ())

    def __repr__(self) -> str:
        place = f"event_type={self.event_type!r}, partition={self.partition}"
        return f"{type(self).__name__}({place}, offset={self.offset!r}, events={len(self)})"

    def _event(self, number: int, raw: msgspec.Raw) -> FeedEvent[Data]:
        if self._decoder is None:
            return FeedEvent(self.partition, raw)
        return TypedEvent(self.partition, raw, None, self._decoder, (None, number))


MakeBatch = Callable[[str, BatchLine, EventDecoder | None], SubscriptionBatch[Any]]


def cursors_of(batches: Sequence[SubscriptionBatch[Any]]) -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return the cursors with which *batches* are committed, by stream: of each partition the last is enough."""
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
class StreamBegan(Handed):
    """A stream has begun."""

    stream_id: str


@dataclass(frozen=True, slots=True)
class StreamEnded(Handed):
    """A stream has ended."""

    stream_id: str
    reason: str
    """Why, as the hub says it, or as it was seen from here."""
    error: PenstockError | None = None
    """What the connection was lost by; None: the hub has ended the stream, or it was given back."""


class _Made(msgspec.Struct):
    id: str


class Streaming:
    """The streams of one subscription for one consumer, one after the other.

    Args:
        url: The hub's address.
        subscription: Its id, or what to create where it is missing, in Nakadi's shape.
        wish: How the events are wanted.
        retry: How often, and after which pauses, a stream is asked for that cannot be had.
        retry_timeout: Seconds for which anything else is asked for.
        clock: Tells seconds.
        kind: What the data of the events is to be.
        make: Makes a batch of its line.
    """

    def __init__(
        self,
        url: str,
        subscription: str | Mapping[str, Any],
        wish: StreamWish,
        *,
        retry: RetryPolicy,
        retry_timeout: float,
        clock: Callable[[], float],
        kind: Any = None,
        make: MakeBatch = SubscriptionBatch,
    ) -> None:
        given: object = subscription  # Whatever a caller without types has handed in.
        if not isinstance(given, str | Mapping):
            allowed = "the id of a subscription, or what to create where it is missing"
            raise BadParameter(parameter="subscription", value=given, allowed=allowed)
        self._url = url
        self.id = subscription if isinstance(subscription, str) else None
        self._definition = None if isinstance(subscription, str) else dict(subscription)
        self.wish = wish
        self.retry = retry
        self.retry_timeout = retry_timeout
        self._json = JsonExchange(retry_timeout, clock)
        self._once = JsonExchange(0.0, clock)
        self._decoder = None if kind is None else EventDecoder(kind, "a subscription")
        self._make = make
        self._unwanted: set[str] = set()
        self._in_hand: dict[FeedPartition, str] = {}
        """Up to where the stream's batches were handed on, in partitions of which that is not committed."""
        self.stream_id: str | None = None
        """The stream that was begun last."""

    def find(self) -> Exchange[str]:
        """Return the subscription's id; it is created where it is missing."""
        if self.id is None:
            body = msgspec.json.encode(self._definition)
            request = Request(method="POST", url=address(self._url, "subscriptions"), headers=_JSON, body=body)
            answer = yield from self._json.done(request, is_passing, HTTPStatus.OK, HTTPStatus.CREATED)
            self.id = decoded(answer, _Made).id
        return self.id

    def run(self, *, reconnect: bool) -> Exchange[None]:
        """Hand on batches, stream after stream if it is to *reconnect*; else until the first ends.

        Raises:
            PenstockError: a stream cannot be had, and trying again does not help, or was tried often enough.
        """
        backoff, failures = Backoff(self.retry.max_delay_seconds), 0
        while True:
            brought = 0
            try:
                ended, brought = yield from self._stream()
            except PenstockError as error:
                if not _may_be_had(error) or (not reconnect and not isinstance(error, ConnectionLost)):
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
                backoff, failures = Backoff(self.retry.max_delay_seconds), 0
                if is_orderly:
                    continue
            failures = 0 if is_orderly else failures + 1  # A feed may be quiet for any number of streams.
            if failures == self.retry.max_attempts:
                raise failed
            yield Pause(backoff.delay(failed), None if is_orderly else failed)

    def unwant(self, stream_id: str) -> None:
        """Have nothing more of a stream handed on; whoever reads it has to be interrupted."""
        self._unwanted.add(stream_id)

    def commit(self, batches: Sequence[SubscriptionBatch[Any]], *, patiently: bool = True) -> Exchange[None]:
        """Commit *batches*, with one request for each stream that was sent some of them.

        Raises:
            StreamNotFound, CommitRefused: the hub does not take them any more.
        """
        for stream_id, cursors in cursors_of(batches).items():
            request = Request(
                method="POST",
                url=subscription_address(self._url, (yield from self.find()), "cursors"),
                headers={**_JSON, STREAM_ID: stream_id},
                body=msgspec.json.encode({"items": cursors}),
            )
            asks = self._json if patiently else self._once
            yield from asks.done(request, is_passing, HTTPStatus.OK, HTTPStatus.NO_CONTENT)
        for batch in batches:
            is_whole = self._in_hand.get(batch.place, "") <= batch.offset
            if batch.stream_id == self.stream_id and is_whole and not batch.is_parked:
                self._in_hand.pop(batch.place, None)

    def extend(self, stream_id: str, *, patiently: bool = True) -> Exchange[None]:
        """Begin anew the time in which a stream has to commit what it was sent.

        Raises:
            StreamNotFound: it is over.
        """
        request = Request(method="POST", url=(yield from self._of_stream(stream_id, "lease")), headers=_JSON)
        yield from (self._json if patiently else self._once).done(request, is_passing, HTTPStatus.NO_CONTENT)

    def give_back(
        self, stream_id: str, keep: Collection[FeedPartition] = (), failed: Collection[FeedPartition] | None = None
    ) -> Exchange[None]:
        """End a stream, and let others have at once what it was sent and has not committed, but for *keep*.

        *failed*: the partitions of which it is counted as a failure; None: all that it has.

        Raises:
            StreamsInTheWay: the hub has not ended it in time; ask again.
            StreamNotFound: it is over, and has nothing any more.
        """
        body = {"keep": _shown(keep)} | ({} if failed is None else {"failed": _shown(failed)})
        url = yield from self._of_stream(stream_id, "release")
        request = Request(method="POST", url=url, headers=_JSON, body=msgspec.json.encode(body))
        yield from self._once.done(request, is_passing, HTTPStatus.NO_CONTENT)

    def leave(self, stream_id: str) -> Exchange[None]:
        """Give back all that a stream has; if that fails, it has nothing once its time to commit is over.

        What was handed on of it and is not committed counts as a failure; what nobody has seen yet does not.
        """
        with suppress(PenstockError):
            yield from self.give_back(stream_id, failed=list(self._in_hand))

    def _handed(self, batch: SubscriptionBatch[Any]) -> SubscriptionBatch[Any]:
        if not batch.is_parked:
            self._in_hand[batch.place] = batch.offset
        return batch

    def _of_stream(self, stream_id: str, path: str) -> Exchange[str]:
        return subscription_address(self._url, (yield from self.find()), "streams", stream_id, path)

    def _stream(self) -> Exchange[tuple[StreamEnded, int]]:
        """Have a stream to its end; return why it ended, and how many batches it brought."""
        url = subscription_address(self._url, (yield from self.find()), "events")
        body = msgspec.json.encode(self.wish.members())
        head: Head = yield Request(method="POST", url=url, headers=_LINES, body=body, wait_seconds=self.wish.silence)
        if head.status != HTTPStatus.OK:
            raise refusal(Answer(url, head.status, head.headers, (yield from rest(ERROR_BYTES_MAX))))
        stream_id = self.stream_id = head.headers.get(STREAM_ID.lower())
        if stream_id is None:
            raise malformed(url, f"it has no {STREAM_ID}")
        self._in_hand.clear()
        yield StreamBegan(stream_id)
        reader, brought, reason = LineReader(url, BATCHES), 0, ""
        try:
            while stream_id not in self._unwanted and (chunk := (yield MORE)):
                for line in reader.feed(chunk):
                    if line.events:
                        brought, reason = brought + 1, ""
                        yield self._handed(self._make(stream_id, line, self._decoder))
                    elif line.reason:
                        reason = line.reason
            if stream_id not in self._unwanted:
                reader.finish()
        except ConnectionLost as error:
            if stream_id not in self._unwanted:
                return StreamEnded(stream_id, f"The connection was lost: {error.reason}", error), brought
        if stream_id in self._unwanted:
            self._unwanted.discard(stream_id)
            reason = GIVEN_BACK
        return StreamEnded(stream_id, reason or "The hub did not say why"), brought


def _may_be_had(error: PenstockError) -> bool:
    """Tell whether a stream that is refused with *error* may be had later."""
    return is_passing(error) or isinstance(error, NoFreeSlots | PartitionsTaken | ResetUnderWay)


def is_over(error: PenstockError) -> bool:
    """Tell whether *error* means that the hub takes nothing more of a stream."""
    return isinstance(error, StreamNotFound)


def _shown(places: Collection[FeedPartition]) -> list[dict[str, str]]:
    return [{"event_type": name, "partition": str(partition)} for name, partition in sorted(places)]
