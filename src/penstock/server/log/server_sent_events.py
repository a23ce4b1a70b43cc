"""Streams a feed as server-sent events: page after page as messages, and comments while there are no events.

Readers at one position share what is read: the messages of an event are the same for all of them.

Invariants:
    A stream that waits has no thread and no database connection.
    Its memory is bounded by a chunk, and it ends as soon as its client disconnects.
    The position that the client knows is never past an event that it was not sent.
    An error after the headers is the last message, unless a repeat can help: then the stream waits.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple, Protocol

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from penstock.core.access import UNAUTHENTICATED
from penstock.core.log.cursor import join_cursors
from penstock.errors import PenstockError, Unavailable
from penstock.hub.log.read import ChunkRows, ColumnChunk, PageReading, Reader, Track, find_details
from penstock.server.auth import authorize, count_stream, event_type_named, uses_replicas
from penstock.server.http.problems import describe
from penstock.server.http.streaming import (
    STALL_TIMEOUT,
    TAKES_NOTHING,
    Disconnect,
    Piece,
    await_unless_disconnected,
    await_while_wanted,
    listen_for_disconnect,
    run_eagerly,
    send_ahead,
    wait_for_events,
)
from penstock.server.state import state_of
from penstock.server.telemetry import access_of
from penstock.wire.log.server_sent_events import (
    EVENT_STREAM,
    HEARTBEAT,
    LAST_EVENT_ID,
    EventSourceOptions,
    detailed_messages,
    event_messages,
    first_message,
    position_message,
    problem_message,
    unnamed_messages,
)

STEP_BYTES: Final = 256 << 10
"""A step ends with the chunk that reaches so many bytes."""
RETRY_SECONDS: Final = (1.0, 3.0)
"""A reader comes again after a time between these, at random, so that not all meet the next hub at once."""
RETRY_INTERVAL: Final = 1.0
"""Seconds until a stream asks again after the database was unavailable."""
HEARTBEAT_SPREAD: Final = 0.9
"""Heartbeats come after a part of their time between this and 1, so that streams do not send them all at once."""
GAP_SECONDS: Final = 0.0002
"""After a send a stream lets events gather for so long, times the number of the hub's streams: a busy feed with many
readers takes no more than about a third of a processor, and a single event is sent at once."""
GAP_SECONDS_MAX: Final = 0.5
_GAP_SECONDS_MIN: Final = 0.005
_PLACE: Final = 10**18
"""Stands for the next offset in an id; no offset is as large."""
_HEADERS: Final = (
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-store, no-transform"),
    (b"vary", b"Accept"),
    (b"x-accel-buffering", b"no"),
)


class MessagePages(Protocol):
    """The pages of a stream, as one version of the contract has them."""

    event_type: str
    id_parameter: str | None
    """The name of the cursors in errors; None: each has the name of its parameter."""

    def open(self, cursors: Mapping[int, str] | None, *, settled: bool) -> PageReading:
        """Open a page at *cursors* by partition, or where the reader asks to begin if that is None."""

    @property
    def shape(self) -> object:
        """All that a page depends on besides its cursors."""


class MessageStep(NamedTuple):
    """Some messages in a row, and where they end."""

    body: bytes
    events: int
    cursors: Mapping[int, str]
    position: str
    """The id just after the messages, and after the events that were left out."""
    said: str | None
    """The id of the last message; None if there is none."""
    waits_at: Mapping[int, int]
    is_caught_up: bool
    """Whether the log had no more events."""
    next_track: int
    """The track with which the next step begins, so that a long one keeps no other waiting."""


class MessageWriter:
    """Turns pages of an event type into messages."""

    def __init__(self, event_type: str, *, is_unnamed: bool, has_details: bool) -> None:
        """Leave out names with *is_unnamed*; with *has_details* add the details of events to their data."""
        self._event_type = event_type
        self._is_unnamed = is_unnamed
        self._has_details = has_details

    @property
    def shape(self) -> object:
        """All that messages depend on besides their events."""
        return self._is_unnamed, self._has_details

    def write(self, reader: Reader, reading: PageReading, first: int = 0) -> MessageStep:
        """Read up to about `STEP_BYTES` of the page, from the *first* track on; call it in a worker thread."""
        found: list[bytes] = []
        events, size, said, next_track = 0, 0, None, 0
        for at, chunk in _read_chunks(reader, reading, first):
            track = reading.tracks[at]
            rows = ChunkRows(chunk)
            kept = rows.match(reading, track) if reading.is_sifted else None
            offsets = chunk.offsets if kept is None else list(compress(chunk.offsets, kept))
            track.advance(chunk.range, len(offsets), is_filtered=reading.is_filtered)
            if offsets:
                before, after = _frame_id(reading, track, chunk.range.physical)
                found.append(self._write_chunk(chunk, (before, after), rows, kept))
                events += len(offsets)
                size += len(found[-1])
                said = f"{before.decode()}{offsets[-1] + 1}{after.decode()}"
            if size >= STEP_BYTES:
                next_track = (at + 1) % len(reading.tracks)
                break
        return MessageStep(
            body=b"".join(found),
            events=events,
            cursors={track.view.partition: track.cursor for track in reading.tracks},
            position=position_of(reading),
            said=said,
            waits_at=reading.waits_at,
            is_caught_up=all(track.is_at_head for track in reading.tracks),
            next_track=next_track,
        )

    def _write_chunk(
        self,
        chunk: ColumnChunk,
        frame: tuple[bytes, bytes],
        rows: ChunkRows,
        kept: Sequence[bool] | None,
    ) -> bytes:
        data = rows.data if kept is None else compress(rows.data, kept)
        if self._has_details:
            details = find_details(chunk, self._event_type, kept)
            return detailed_messages(frame, chunk.range.physical, details, data, is_unnamed=self._is_unnamed)
        offsets = chunk.offsets if kept is None else compress(chunk.offsets, kept)
        if self._is_unnamed:
            return unnamed_messages(frame, zip(offsets, data, strict=True))
        kinds = rows.kinds if kept is None else compress(rows.kinds, kept)
        return event_messages(frame, zip(offsets, kinds, data, strict=True), default_kind=self._event_type.encode())


def _read_chunks(reader: Reader, reading: PageReading, first: int) -> Iterator[tuple[int, ColumnChunk]]:
    """Yield the chunks of the page, each after the number of its track, which the caller has to advance."""
    count = len(reading.tracks)
    for at in (each % count for each in range(first, first + count)):
        while chunk := reader.read_next_joined_columns(reading, reading.tracks[at], "\n"):
            yield at, chunk


def position_of(reading: PageReading) -> str:
    """Return the id of the message after which a reader has all that was read."""
    return join_cursors([track.cursor_at({}) for track in reading.tracks])


def _frame_id(reading: PageReading, track: Track, physical: int) -> tuple[bytes, bytes]:
    """Return the texts of an id before and after the next offset of one physical partition of *track*."""
    marked = join_cursors([each.cursor_at({physical: _PLACE} if each is track else {}) for each in reading.tracks])
    before, _, after = marked.partition(str(_PLACE))
    return before.encode(), after.encode()


class EventSourceResponse:
    """One stream for one reader: an ASGI response."""

    def __init__(self, request: Request, pages: MessagePages, options: EventSourceOptions) -> None:
        """Prepare to answer *request* with the *pages*."""
        self._state = state_of(request)
        self._access = access_of(request)
        self._pages = pages
        pages.id_parameter = options.id_parameter
        self._writer = MessageWriter(pages.event_type, is_unnamed=options.is_unnamed, has_details=options.has_details)
        self._heartbeat = options.heartbeat_interval * random.uniform(HEARTBEAT_SPREAD, 1.0)  # noqa: S311
        self._count_stream = partial(count_stream, request)
        self._uses_replicas = partial(uses_replicas, request.scope)
        self._check = partial(authorize, request, "read", event_type_named(pages.event_type))
        self._position = ""
        """Where the reader is."""
        self._said = ""
        """The last id that it was sent."""
        self._sent_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the hub stops, an error ends the stream, or the client disconnects; of HEAD the headers.

        Raises:
            PenstockError: the first page could not be opened, and nothing was sent.
        """
        is_head = scope["method"] == "HEAD"
        if not is_head:
            self._count_stream()
        reading = await self._state.run(lambda: self._pages.open(None, settled=True))
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
        if is_head:
            await send(_body(b"", more=False))
            return
        self._pages.id_parameter = LAST_EVENT_ID  # A reader that comes again sends it.
        disconnect = listen_for_disconnect(receive)
        self._state.event_sources += 1
        try:
            if await self._stream(reading, send, disconnect):
                await await_unless_disconnected(disconnect, send(_body(b"", more=False)))
        finally:
            self._state.event_sources -= 1
            disconnect.cancel()

    async def _stream(self, reading: PageReading, send: Send, disconnect: Disconnect) -> bool:
        """Send messages to the end of the stream; return False if the client is gone, or takes nothing."""
        watch = self._state.hub.log.watch
        cursors: Mapping[int, str] = {track.view.partition: track.cursor for track in reading.tracks}
        first = 0
        self._position = self._said = position_of(reading)
        begin = first_message(self._position, random.uniform(*RETRY_SECONDS))  # noqa: S311
        is_there = await self._send(begin, 0, send, disconnect)
        while is_there and not disconnect.done():
            if watch.draining:
                return True
            try:
                step = await self._read(cursors, first, disconnect)
                if step is None:
                    return False
                cursors, first, self._position = step.cursors, step.next_track, step.position
                if step.body:
                    self._said = step.said or self._said
                    is_there = await self._send(step.body, step.events, send, disconnect)
                    await self._let_gather(disconnect)
                elif time.monotonic() - self._sent_at >= self._heartbeat:
                    is_there = await self._beat(send, disconnect)
                if is_there and step.is_caught_up:
                    is_there = await self._wait_for_events(step.waits_at, send, disconnect)
            except Unavailable:
                await asyncio.wait({disconnect}, timeout=RETRY_INTERVAL)
                is_there = time.monotonic() - self._sent_at < self._heartbeat or await self._beat(send, disconnect)
            except PenstockError as error:
                self._access.refuse(error)
                last = send(_body(problem_message(describe(error)), more=True))
                return await await_unless_disconnected(disconnect, last, STALL_TIMEOUT)
        return False

    async def _read(self, cursors: Mapping[int, str], first: int, disconnect: Disconnect) -> MessageStep | None:
        """Return the next step, which other streams may read too; return None if the client disconnects."""
        self._check()
        uses_replicas, flights = self._uses_replicas(), self._state.flights
        shape = self._pages.shape, self._writer.shape, uses_replicas
        needs = EVENT_STREAM, shape, tuple(cursors.items()), first
        flight = flights.get(needs)
        if flight is None:

            def read() -> MessageStep:
                reading = self._pages.open(cursors, settled=True)._replace(uses_replicas=uses_replicas)
                return self._writer.write(self._state.hub.log.reader, reading, first)

            def end(done: "asyncio.Future[MessageStep]") -> None:
                del flights[needs]
                if not done.cancelled():
                    done.exception()  # Else asyncio logs it, if all who need it are gone.

            flight = flights[needs] = asyncio.ensure_future(self._state.run(read))
            flight.add_done_callback(end)
        await asyncio.wait({flight, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if disconnect.done():
            return None
        self._check()
        step: MessageStep = flight.result()
        return step

    async def _let_gather(self, disconnect: Disconnect) -> None:
        """Wait a little after a send if there are many streams."""
        gap = min(GAP_SECONDS_MAX, GAP_SECONDS * self._state.event_sources)
        if gap >= _GAP_SECONDS_MIN:
            await asyncio.wait({disconnect}, timeout=gap)

    async def _wait_for_events(self, offsets: Mapping[int, int], send: Send, disconnect: Disconnect) -> bool:
        """Wait until there may be events, with heartbeats; return False if the client is gone, or takes nothing."""
        interrupt: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sending: asyncio.Future[None] | None = None

        def beat() -> None:
            """Send a heartbeat without a task; end the wait if the client does not take it, or may no longer read."""
            nonlocal sending
            if interrupt.done():
                return
            try:
                self._check()
            except PenstockError:
                interrupt.set_result(None)  # The wait raises it.
                return
            sending = run_eagerly(send(_body(self._make_beat(), more=True)))
            if not sending.done() or sending.exception() is not None:
                interrupt.set_result(None)

        ticket, watch = self._state.beats.begin(self._heartbeat, beat), self._state.hub.log.watch
        try:
            await wait_for_events(watch, offsets, None, disconnect, self._check, interrupt=interrupt)
        finally:
            self._state.beats.end(ticket)
        if not interrupt.done() or sending is None:
            return True
        taken = sending  # By a client that does not take it yet, or is gone.
        return await self._send_while_wanted(lambda: taken, disconnect)

    async def _beat(self, send: Send, disconnect: Disconnect) -> bool:
        """Send a heartbeat; return False if the client is gone, takes nothing, or may no longer read."""
        return await self._send(self._make_beat(), 0, send, disconnect)

    def _make_beat(self) -> bytes:
        """Return a heartbeat, with the reader's position if events were left out since its last id."""
        message = HEARTBEAT if self._said == self._position else position_message(self._position)
        self._said, self._sent_at = self._position, time.monotonic()
        return message

    async def _send(self, body: bytes, events: int, send: Send, disconnect: Disconnect) -> bool:
        """Send *body*; return False if the client is gone, takes nothing, or may no longer read."""
        piece = Piece(body, events, more=False)

        async def send_one(_: Piece) -> bool:
            return await self._send_while_wanted(lambda: send(_body(body, more=True)), disconnect)

        is_there = await send_ahead(piece, _make_nothing, self._state.run, send_one, self._count)
        self._sent_at = time.monotonic()
        if is_there and events:
            self._record(events, len(body))
        return is_there

    async def _send_while_wanted(self, send: Callable[[], Awaitable[None]], disconnect: Disconnect) -> bool:
        until = time.monotonic() + STALL_TIMEOUT

        async def is_wanted() -> bool:
            try:
                self._check()
            except PenstockError as error:
                self._access.refuse(error)
                self._access.cut(error.code)
                return False
            if time.monotonic() < until:
                return True
            self._access.cut(TAKES_NOTHING)
            return False

        async def sending() -> bool:
            await send()
            return True

        return await await_while_wanted(disconnect, sending(), is_wanted)

    def _count(self, events: int) -> None:
        if events:
            self._state.metrics.served.add(self._pages.event_type, events)
            self._access.events += events

    def _record(self, events: int, size: int) -> None:
        activity = self._state.activity
        if activity is not None and activity.is_on:
            caller = self._access.caller or UNAUTHENTICATED
            activity.add_streamed("feed", self._pages.event_type, caller, events=events, size=size, batches=1)


def _make_nothing() -> Piece:
    raise AssertionError("a step is one piece")


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
