"""Makes what a stream sends: reads what there is, cuts it into batches, writes their lines; in worker threads.

Streams an event type's batches to those who keep their own cursors, as Nakadi's low-level interface does.

A stream waits without a thread and without a connection to the database, is bounded in memory, and ends as soon as its
client has left. After its headers are sent nothing can be told any more: whatever ends it then is in the access log.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from penstock.core.log.batching import FeedBatcher, FeedStreamRules
from penstock.core.log.cursor import FeedCursor, FeedView, feed_mark
from penstock.core.registry.event_type import StoredFeed
from penstock.core.subscriptions.delivery import EventChunk
from penstock.errors import EventTypeNotFound, PenstockError, Unavailable, UnusableStart
from penstock.hub.hub import Hub
from penstock.hub.log.read import Reading, Track, WantedPartition, next_events
from penstock.server.access import access_of
from penstock.server.auth import authorize, event_type_named
from penstock.server.http.encoding import choose_encoding
from penstock.server.http.streaming import Gathering, Leaving, Piece, Run, leaving, send_ahead, something_new, unless
from penstock.server.log.nakadi import look
from penstock.server.state import event_type_of, state_of
from penstock.wire.log.nakadi import (
    HEADER,
    MEDIA_TYPE,
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
"""So many events are read before all partitions are looked at again."""
STUCK_SECONDS: Final = 30.0
"""So long after its end a stream is left to a client that takes nothing."""


class StreamPieces:
    """The bytes of one stream, made piece by piece in worker threads, never two at once."""

    def __init__(
        self,
        hub: Hub,
        feed: StoredFeed,
        positions: Mapping[int, int],
        *,
        allowed: Callable[[], None],
        rules: FeedStreamRules,
        encoding: str | None,
        all_partitions: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now, at the offsets wanted next of each partition.

        *allowed* is asked before every chunk, and raises once the reader may no longer read. *all_partitions* says that
        those which are added later are read too, from their beginning. *clock* gives seconds, and does not go back.
        """
        self._hub = hub
        self._name = feed.name
        self._allowed = allowed
        self._batching = FeedBatcher(rules, positions, clock())
        self._cursors = {partition: _cursor(feed, partition, position) for partition, position in positions.items()}
        self._all_partitions = all_partitions
        self._writer = StreamLines(feed.epoch)
        self._gathering = Gathering(encoding)
        self._clock = clock
        self._reading: Reading | None = None

    @property
    def over(self) -> bool:
        """Whether nothing follows what has been made."""
        return self._batching.is_closed or self._hub.log.watch.draining

    @property
    def unread(self) -> bool:
        """Whether there was more to read at the last look."""
        tracks = self._reading.tracks if self._reading else ()
        return any(track.offsets[each] < track.stops[each] for track in tracks for each in track.view.physical)

    @property
    def waits_at(self) -> dict[int, int]:
        """By partition id: the offsets whose arrival gives it something to read."""
        return self._reading.waits_at if self._reading else {}

    @property
    def idle_seconds(self) -> float:
        """For how long nothing is to be sent, unless there is something to read before."""
        return max(0.0, self._batching.due_at - self._clock())

    @property
    def patience(self) -> float:
        """For how many seconds a piece may take to be sent."""
        return max(0.0, self._batching.ends_at + STUCK_SECONDS - self._clock())

    def begin(self) -> Piece:
        """Look what there is to read and to send now, and return its first piece.

        Raises:
            Blocked: who reads may do so no more.
            CursorExpired, EventTypeNotFound: what would be read is gone.
            DatabaseUnavailable: it could not be read.
        """
        return self._gathering.begin(self._read())

    def next(self) -> Piece:
        """Return the next piece: see `Gathering.next`."""
        return self._gathering.next()

    def end(self) -> bytes:
        """Return what is sent last."""
        return self._gathering.end()

    def _read(self) -> Iterator[bytes]:
        """Read what there is, up to a page, and return the lines that are to be sent now."""
        if reading := self._look():
            for track in reading.tracks:
                while not self.over and (found := self._chunk(reading, track)):
                    events, offsets, position, _ = found
                    self._batching.add(track.view.partition, events[:], offsets, position, self._clock())
                    yield from self._due()
                self._cursors[track.view.partition] = track.cursor
        yield from self._due()

    def _look(self) -> Reading | None:
        """Return what there is to read; None where the database is away, and all that it had has been read."""
        try:
            self._allowed()
            self._reading = self._opened()
            if self._all_partitions and self._begin_added(self._reading.feed):
                self._reading = self._opened()
        except Unavailable:
            if self._reading is None or self.unread:
                raise
            return None  # Whoever wakes it next has found the database again.
        return self._reading

    def _opened(self) -> Reading:
        left = self._batching.left
        wanted = [WantedPartition(f"cursor of partition {each}", each, text) for each, text in self._cursors.items()]
        return self._hub.log.reader.open(
            self._name, None, wanted, PAGE_EVENTS if left is None else min(left, PAGE_EVENTS)
        )

    def _begin_added(self, feed: StoredFeed) -> bool:
        """Begin with the partitions that *feed* has got meanwhile; tell whether there are any."""
        added = range(len(self._cursors), feed.partition_count)
        for partition in added:
            self._cursors[partition] = _cursor(feed, partition, 0)
            self._batching.begin(partition, 0, self._clock())
        return bool(added)

    def _chunk(self, reading: Reading, track: Track) -> EventChunk | None:
        """Read a chunk; None when nothing is left."""
        self._allowed()
        return next_events(self._hub.log.reader, reading, track)

    def _due(self) -> Iterator[bytes]:
        """Return the lines of what is to be sent now."""
        yield from self._writer.parts(self._gathering.counted(deque(self._batching.take(self._clock()))))


def _cursor(feed: StoredFeed, partition: int, position: int) -> str:
    view = FeedView(feed.partition_count, partition, feed.partition_count)
    return FeedCursor(feed_mark(feed.name), feed.epoch, view, (position,)).encode()


TIMEOUT_SECONDS: Final = (3_000.0, 4_200.0)
"""When a stream ends that has not said when: at random, so that those that began together do not end together."""


async def stream_events(request: Request) -> "EventStream":
    """GET /event-types/{event_type}/events: stream batches of events to one who keeps its own cursors."""
    access, state = access_of(request), state_of(request)
    try:
        name = event_type_of(request)
        feed, extents = await look(state, name)
    except EventTypeNotFound as error:
        raise EventTypeNotFound("topic not found", **error.fields) from None
    allowed = partial(authorize, request, "read", event_type_named(name))
    header = request.headers.get(HEADER)
    positions = _positions(header, extents)
    asked = parse_stream(Query(request.scope["query_string"]))
    access.n, access.partitions = feed.partition_count, ",".join(map(str, sorted(positions)))

    def served(events: int) -> None:
        state.metrics.served.add(name, events)
        access.events += events

    rules = _rules(asked, state.hub.limits.stream_bytes_max)
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    pieces = StreamPieces(
        state.hub, feed, positions, allowed=allowed, rules=rules, encoding=encoding, all_partitions=header is None
    )
    return EventStream(
        pieces,
        state.hub,
        state.run,
        encoding=encoding,
        allowed=allowed,
        served=served,
        ended=access.refuse,
    )


class EventStream:
    """One stream for one reader: an ASGI response."""

    def __init__(
        self,
        pieces: StreamPieces,
        hub: Hub,
        run: Run,
        *,
        encoding: str | None,
        allowed: Callable[[], None],
        served: Callable[[int], None],
        ended: Callable[[PenstockError], None],
    ) -> None:
        """Prepare to send *pieces*.

        *allowed* is asked while the stream waits, and raises once the reader may no longer read. *served* is told how
        many events have been sent since it was last told, and *ended* what has ended the stream before its time.
        """
        self._pieces = pieces
        self._hub = hub
        self._run = run
        self._encoding = encoding
        self._allowed = allowed
        self._served = served
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the stream or the client's patience is over; of HEAD send the headers alone."""
        await send(self._start())
        if scope["method"] == "HEAD":
            await send(_body(b"", more=False))
            return
        left = leaving(receive)
        try:
            if await self._stream(send, left):
                await unless(left, send(_body(self._pieces.end(), more=False)))
        finally:
            left.cancel()

    async def _stream(self, send: Send, left: Leaving) -> bool:
        """Send batches until there are no more to be sent; False: the client is gone, or takes nothing."""
        try:
            await unless(left, send(_body(b"", more=True)))  # Some servers keep headers back until then.
            while not left.done():
                if not await self._send(await self._run(self._pieces.begin), send, left):
                    return False
                if self._pieces.over:
                    return True
                if not self._pieces.unread:
                    await self._something_new(left)
        except PenstockError as error:
            self._ended(error)
            return True
        return False

    async def _send(self, piece: Piece, send: Send, left: Leaving) -> bool:
        """Send *piece* and the rest; False: the client is gone, or takes nothing."""
        pieces = self._pieces

        async def send_one(piece: Piece) -> bool:
            return await unless(left, send(_body(piece.body, more=True)), pieces.patience)

        return await send_ahead(piece, pieces.next, self._run, send_one, self._served)

    async def _something_new(self, left: Leaving) -> None:
        """Wait until there may be something to read, or something has to be sent without."""
        pieces, watch = self._pieces, self._hub.log.watch
        await something_new(watch, pieces.waits_at, pieces.idle_seconds, left, self._allowed)

    def _start(self) -> dict[str, Any]:
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"vary", b"Accept-Encoding")]
        if self._encoding:
            headers.append((b"content-encoding", self._encoding.encode()))
        return {"type": "http.response.start", "status": 200, "headers": headers}


def _positions(header: str | None, extents: Sequence[OffsetExtent]) -> dict[int, int]:
    """Return the offset wanted next of each partition that is to be read.

    Raises:
        BadParameter: the header is no list of cursors.
        UnusableStart: a stream cannot begin there.
    """
    if header is None:
        return {partition: extent.next_offset for partition, extent in enumerate(extents)}
    given = parse_header(header)
    if not given:
        reason = f"{HEADER} names no partition"
        raise UnusableStart(reason, partition=None, offset=None, reason=reason)
    places: list[CursorPlace] = [
        parse_readable_place(each, extents, f"[{at}]", kind=UnusableStart) for at, each in enumerate(given)
    ]
    check_distinct(places, UnusableStart)
    return dict(places)


def _rules(asked: StreamRequest, bytes_max: int) -> FeedStreamRules:
    timeout = random.uniform(*TIMEOUT_SECONDS) if asked.stream_timeout is None else asked.stream_timeout  # noqa: S311
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
