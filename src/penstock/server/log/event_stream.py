"""Streams an event type's batches to consumers that keep their own cursors, by Nakadi's low-level interface.

Invariants:
    A stream that waits has no thread and no database connection.
    Its memory is bounded, and it ends as soon as its client disconnects.
    An error after the headers ends the stream, and is told in the access log alone.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from penstock.core.access import UNAUTHENTICATED
from penstock.core.log.batching import FeedBatcher, FeedStreamRules
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.delivery import EventChunk
from penstock.errors import EventTypeNotFound, PenstockError, Unavailable, UnusablePosition
from penstock.hub.activity import SentEvents
from penstock.hub.hub import Hub
from penstock.hub.log.read import PageReading, Track, WantedPartition, read_next_events
from penstock.server.auth import authorize, count_stream, event_type_named, uses_replicas
from penstock.server.http.encoding import choose_encoding
from penstock.server.http.streaming import (
    STALL_TIMEOUT,
    TAKES_NOTHING,
    Disconnect,
    Piece,
    PieceBuilder,
    RunInThread,
    await_unless_disconnected,
    await_while_wanted,
    listen_for_disconnect,
    send_ahead,
    wait_for_events,
)
from penstock.server.log.nakadi import find_extents
from penstock.server.state import event_type_of, state_of
from penstock.server.telemetry import access_of
from penstock.wire.log.nakadi import (
    HEADER,
    MEDIA_TYPE,
    UNUSABLE_START,
    CursorPlace,
    OffsetExtent,
    StreamLines,
    StreamRequest,
    check_distinct,
    parse_header,
    parse_readable_place,
    parse_stream,
)
from penstock.wire.query import Query

PAGE_EVENTS: Final = 1 << 15
"""After so many events all partitions are looked at again."""
SEND_TIMEOUT: Final = 30.0
"""A client that reads nothing is disconnected so long after the end of its stream."""


class StreamPieces:
    """The bytes of one stream, made piece by piece in worker threads, never two at once."""

    def __init__(
        self,
        hub: Hub,
        feed: StoredFeed,
        positions: Mapping[int, int],
        *,
        check: Callable[[], None],
        rules: FeedStreamRules,
        encoding: str | None,
        all_partitions: bool = False,
        sent: SentEvents | None = None,
        uses_replicas: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now, at the next offset wanted of each partition.

        *check* is called before every chunk, and raises once the reader may no longer read. With *all_partitions* those
        that are added later are read too, from their beginning. Batches are noted in *sent*. *uses_replicas* says
        whether replicas may serve the events. *clock* returns seconds and does not go back.
        """
        self._hub = hub
        self._name = feed.name
        self._check = check
        self._batching = FeedBatcher(rules, positions, clock())
        self._cursors = {partition: _cursor(feed, partition, position) for partition, position in positions.items()}
        self._all_partitions = all_partitions
        self._sent = sent
        self._uses_replicas = uses_replicas
        self._writer = StreamLines(feed.epoch)
        self._builder = PieceBuilder(encoding)
        self._clock = clock
        self._reading: PageReading | None = None

    @property
    def is_over(self) -> bool:
        """True after the last piece."""
        return self._batching.is_closed or self._hub.log.watch.draining

    @property
    def has_unread(self) -> bool:
        """True if the last look at the log found more events than were read since."""
        tracks = self._reading.tracks if self._reading else ()
        return any(track.offsets[each] < track.stops[each] for track in tracks for each in track.view.physical)

    @property
    def waits_at(self) -> dict[int, int]:
        """The offsets that the stream waits for, by partition id."""
        return self._reading.waits_at if self._reading else {}

    @property
    def idle_seconds(self) -> float:
        """Seconds until something has to be sent, whether there are events or not."""
        return max(0.0, self._batching.due_at - self._clock())

    @property
    def send_timeout(self) -> float:
        """Seconds that the send of a piece may take."""
        return max(0.0, self._batching.ends_at + SEND_TIMEOUT - self._clock())

    def begin(self) -> Piece:
        """Look at the log, and return the first piece of the lines that are due.

        Raises:
            Blocked: the reader may no longer read.
            CursorExpired, EventTypeNotFound: the events are gone.
            DatabaseUnavailable: the log could not be read.
        """
        return self._builder.begin(self._read_lines())

    def next(self) -> Piece:
        """Return the next piece: see `PieceBuilder.next`."""
        return self._builder.next()

    def end(self) -> bytes:
        """Return the end of the compressed stream."""
        return self._builder.end()

    def _read_lines(self) -> Iterator[bytes]:
        """Read up to a page, and yield the lines that are due."""
        if reading := self._look():
            for track in reading.tracks:
                while not self.is_over and (found := self._read_chunk(reading, track)):
                    events, offsets, position = found[:3]
                    self._batching.add(track.view.partition, events[:], offsets, position, self._clock())
                    yield from self._write_due()
                self._cursors[track.view.partition] = track.cursor
        yield from self._write_due()

    def _look(self) -> PageReading | None:
        """Open the next page; return None if the database is unavailable and the last page has been read."""
        try:
            self._check()
            self._reading = self._open()
            if self._all_partitions and self._begin_added(self._reading.feed):
                self._reading = self._open()
        except Unavailable:
            if self._reading is None or self.has_unread:
                raise
            return None  # The watch wakes the stream once the database is back.
        return self._reading

    def _open(self) -> PageReading:
        left = self._batching.left
        wanted = [WantedPartition(f"cursor of partition {each}", each, text) for each, text in self._cursors.items()]
        rows = PAGE_EVENTS if left is None else min(left, PAGE_EVENTS)
        reading = self._hub.log.reader.open(self._name, None, wanted, rows)
        return reading._replace(uses_replicas=self._uses_replicas())

    def _begin_added(self, feed: StoredFeed) -> bool:
        """Begin with the partitions that were added to *feed*; return whether there are any."""
        added = range(len(self._cursors), feed.partition_count)
        for partition in added:
            self._cursors[partition] = _cursor(feed, partition, 0)
            self._batching.begin(partition, 0, self._clock())
        return bool(added)

    def _read_chunk(self, reading: PageReading, track: Track) -> EventChunk | None:
        """Read a chunk; return None at the end."""
        self._check()
        return read_next_events(self._hub.log.reader, reading, track)

    def _write_due(self) -> Iterator[bytes]:
        """Yield the lines that are due."""
        batches = self._batching.take(self._clock())
        if self._sent is not None and self._sent.activity.is_on:
            for each in batches:
                self._sent.note(self._name, each.events)
        yield from self._writer.parts(self._builder.count_events(deque(batches)))


def _cursor(feed: StoredFeed, partition: int, position: int) -> str:
    view = FeedView(feed.partition_count, partition, feed.partition_count)
    return FeedCursor(feed_mark(feed.name), feed.epoch, view, (position,)).encode()


STREAM_TIMEOUTS: Final = (3_000.0, 4_200.0)
"""The default timeout of a stream is between these, at random, so that streams do not all end together."""


async def stream_events(request: Request) -> "FeedStreamResponse":
    """GET /event-types/{event_type}/events: stream batches of events to a consumer that keeps its own cursors."""
    access, state = access_of(request), state_of(request)
    try:
        name = event_type_of(request)
        feed, extents = await find_extents(state, name)
    except EventTypeNotFound as error:
        raise EventTypeNotFound("topic not found", **error.fields) from None
    sent = SentEvents(state.hub.activity, "lola", access.caller or UNAUTHENTICATED)
    reader = _RequestReader(request, name, sent)
    header = request.headers.get(HEADER)
    positions = _read_positions(header, extents)
    asked = parse_stream(Query(request.scope["query_string"]))
    access.n, access.partitions = feed.partition_count, ",".join(map(str, sorted(positions)))
    rules = _make_rules(asked, state.hub.limits.stream_bytes_max)
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    if request.method != "HEAD":
        count_stream(request)
    pieces = StreamPieces(
        state.hub,
        feed,
        positions,
        check=reader.check_permission,
        rules=rules,
        encoding=encoding,
        all_partitions=header is None,
        sent=sent,
        uses_replicas=partial(uses_replicas, request.scope),
    )
    return FeedStreamResponse(pieces, reader, state.hub, state.run, encoding=encoding)


class EventStreamReader(Protocol):
    """The reader of a stream."""

    def check_permission(self) -> None:
        """Raise once it may no longer read."""

    def count_served(self, events: int) -> None:
        """Count *events* more events that were sent to it."""

    def record_error(self, error: PenstockError) -> None:
        """Record the error that ends the stream early."""

    def record_cut(self, reason: str) -> None:
        """Record why the stream ends in the midst of a piece."""


class _RequestReader:
    """The reader that has sent a request."""

    def __init__(self, request: Request, name: str, sent: SentEvents) -> None:
        self.check_permission = partial(authorize, request, "read", event_type_named(name))
        self.record_error = access_of(request).refuse
        self.record_cut = access_of(request).cut
        self._name = name
        self._access = access_of(request)
        self._metrics = state_of(request).metrics
        self._sent = sent

    def count_served(self, events: int) -> None:
        self._metrics.served.add(self._name, events)
        self._access.events += events
        self._sent.record()


class FeedStreamResponse:
    """One stream for one reader: an ASGI response."""

    def __init__(
        self,
        pieces: StreamPieces,
        reader: EventStreamReader,
        hub: Hub,
        run: RunInThread,
        *,
        encoding: str | None,
    ) -> None:
        """Prepare to send *pieces* to *reader*, whose permission is checked while the stream waits."""
        self._pieces = pieces
        self._hub = hub
        self._run = run
        self._encoding = encoding
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the stream ends or the client disconnects; for HEAD send the headers alone."""
        await send(self._start())
        if scope["method"] == "HEAD":
            await send(_body(b"", more=False))
            return
        disconnect = listen_for_disconnect(receive)
        try:
            if await self._stream(send, disconnect):
                await await_unless_disconnected(disconnect, send(_body(self._pieces.end(), more=False)))
        finally:
            disconnect.cancel()

    async def _stream(self, send: Send, disconnect: Disconnect) -> bool:
        """Send batches to the end of the stream; return False if the client is gone, or reads nothing."""
        try:
            # Some servers keep headers back until then.
            await await_unless_disconnected(disconnect, send(_body(b"", more=True)))
            while not disconnect.done():
                if not await self._send(await self._run(self._pieces.begin), send, disconnect):
                    return False
                if self._pieces.is_over:
                    return True
                if not self._pieces.has_unread:
                    await self._wait_for_events(disconnect)
        except PenstockError as error:
            self._reader.record_error(error)
            return True
        return False

    async def _send(self, piece: Piece, send: Send, disconnect: Disconnect) -> bool:
        """Send *piece* and the rest; return False if the client is gone, or reads nothing."""
        pieces = self._pieces

        async def send_one(piece: Piece) -> bool:
            until = time.monotonic() + min(pieces.send_timeout, STALL_TIMEOUT)

            async def is_wanted() -> bool:
                try:
                    self._reader.check_permission()
                except PenstockError as error:
                    self._reader.record_error(error)
                    self._reader.record_cut(error.code)
                    return False
                if time.monotonic() < until:
                    return True
                self._reader.record_cut(TAKES_NOTHING)
                return False

            async def sending() -> bool:
                await send(_body(piece.body, more=True))
                return True

            return not piece.body or await await_while_wanted(disconnect, sending(), is_wanted)

        return await send_ahead(piece, pieces.next, self._run, send_one, self._reader.count_served)

    async def _wait_for_events(self, disconnect: Disconnect) -> None:
        """Wait until there may be events to read, or something is due without them."""
        pieces, watch = self._pieces, self._hub.log.watch
        await wait_for_events(watch, pieces.waits_at, pieces.idle_seconds, disconnect, self._reader.check_permission)

    def _start(self) -> dict[str, Any]:
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"vary", b"Accept-Encoding")]
        if self._encoding:
            headers.append((b"content-encoding", self._encoding.encode()))
        return {"type": "http.response.start", "status": 200, "headers": headers}


def _read_positions(header: str | None, extents: Sequence[OffsetExtent]) -> dict[int, int]:
    """Return the next offset wanted of each partition that is to be read.

    Raises:
        BadParameter: the header is no list of cursors.
        UnusablePosition: a stream cannot begin at one of them.
    """
    if header is None:
        return {partition: extent.next_offset for partition, extent in enumerate(extents)}
    given = parse_header(header)
    if not given:
        reason = f"{HEADER} names no partition"
        raise UnusablePosition.of(UNUSABLE_START, reason, partition=None, offset=None, reason=reason)
    places: list[CursorPlace] = [
        parse_readable_place(each, extents, f"[{at}]", code=UNUSABLE_START) for at, each in enumerate(given)
    ]
    check_distinct(places, UNUSABLE_START)
    return dict(places)


def _make_rules(asked: StreamRequest, bytes_max: int) -> FeedStreamRules:
    timeout = random.uniform(*STREAM_TIMEOUTS) if asked.stream_timeout is None else asked.stream_timeout  # noqa: S311
    return FeedStreamRules(
        batch_limit=asked.batch_limit,
        stream_limit=asked.stream_limit,
        flush_timeout=asked.batch_flush_timeout,
        timeout=timeout,
        keep_alive_limit=asked.stream_keep_alive_limit,
        bytes_max=bytes_max,
    )


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
