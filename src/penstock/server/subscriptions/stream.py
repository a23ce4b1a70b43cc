"""Streams a subscription's batches to one consumer, as Nakadi does (https://nakadi.io/manual.html).

Invariants:
    A stream that waits has no thread and no database connection.
    Its memory is bounded, and it ends as soon as its client has left.
    Streams that wait at the same position share what is read.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.core.access import UNAUTHENTICATED
from penstock.errors import ColdTierUnavailable, DatabaseUnavailable, PenstockError
from penstock.hub.activity import SentEvents
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.consumer_stream import ConsumerStream
from penstock.server.auth import admit, authorize, count_stream, event_type_named, subscription_with, uses_replicas
from penstock.server.http.encoding import choose_encoding, choose_form
from penstock.server.http.requests import read_body
from penstock.server.http.streaming import (
    Disconnect,
    Piece,
    PieceBuilder,
    await_unless_disconnected,
    await_while_wanted,
    listen_for_disconnect,
    send_ahead,
)
from penstock.server.state import State, state_of, subscription_of
from penstock.server.telemetry import AccessLine, access_of
from penstock.wire.log.nakadi import MEDIA_TYPE
from penstock.wire.query import Query
from penstock.wire.subscriptions import (
    STREAM_ID,
    RawStreamParameters,
    SubscriptionLines,
    check_stream_parameters,
    parse_stream_body,
    parse_stream_query,
)

BODY_BYTES_MAX: Final = 1 << 20
GATHER_BYTES: Final = 1 << 19
"""Parts are joined into larger pieces than in other streams: a worker thread takes longer to wake than to make one."""
GAP_SECONDS: Final = 0.0005
"""After a send a stream lets events gather for so long, times the number of the hub's streams. It is longer than a send
takes, which leaves time for publishes and commits."""
GAP_SECONDS_MAX: Final = 0.050
"""The limit of that time."""
FIRST_SECONDS: Final = 0.050
"""A stream begins so long after its headers: some clients lose bytes that arrive together with them (pyNakadi)."""
SEND_TIMEOUT: Final = 10.0
"""The least time that a client has to read a piece before its stream ends; other clients wait for its partitions."""
RETRY_INTERVAL: Final = 0.25
"""Seconds until a stream asks again after the database was unavailable."""
_log: Final = structlog.get_logger("penstock.subscriptions")


async def stream_by_query(request: Request) -> Any:
    """GET /subscriptions/{subscription}/events: stream batches of a subscription's events."""
    return await _stream(request, parse_stream_query(Query(request.scope["query_string"])))


async def stream_by_body(request: Request) -> Any:
    """POST /subscriptions/{subscription}/events: stream batches of a subscription's events, of chosen partitions."""
    choose_form(request, MEDIA_TYPE)
    state = state_of(request)
    return await _stream(request, parse_stream_body(await read_body(request, state.run, BODY_BYTES_MAX)))


async def _stream(request: Request, given: RawStreamParameters) -> Any:
    access, state = access_of(request), state_of(request)
    subscription_id = access.consumer = subscription_of(request)
    hub = state.hub
    has_details = Query(request.scope["query_string"]).read_flag("details")
    asked = check_stream_parameters(given, hub.limits, has_details=has_details)
    subscription = await state.run(lambda: hub.subscriptions.find(subscription_id))
    names = subscription.definition["event_types"]
    access.feed = ",".join(names)

    resources = subscription_with(subscription_id), *map(event_type_named, names)
    await admit(request.scope, "read", *resources, may_be_missing=True)
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    count_stream(request)
    may_read = partial(authorize, request, "read", *resources)
    stream = await _open_stream(
        state,
        lambda: hub.subscriptions.streams.open(
            subscription_id, asked.wants, asked.rules, may_read, partial(uses_replicas, request.scope)
        ),
    )
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    return SubscriptionResponse(stream, state, access, encoding=encoding)


async def _open_stream(state: State, open_stream: Callable[[], ConsumerStream]) -> ConsumerStream:
    """Open a stream in a worker thread; close it again if the request is cancelled meanwhile."""
    hub, opening = state.hub, asyncio.ensure_future(state.run(open_stream))

    def close(opened: "asyncio.Future[ConsumerStream]") -> None:
        if not opened.exception():
            _ = state.run(partial(_close, hub, opened.result()))

    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(close)
        raise


def _close(hub: Hub, stream: ConsumerStream) -> None:
    try:
        stream.close()
    except Exception as error:  # noqa: BLE001 - a stream that is not closed keeps its partitions
        _log.warning("a stream could not be closed, trying again", stream=stream.session_id, error=str(error))
        hub.subscriptions.lease.close_later(stream.close)


class SubscriptionResponse:
    """One stream for one consumer: an ASGI response."""

    def __init__(self, stream: ConsumerStream, state: State, access: AccessLine, *, encoding: str | None) -> None:
        """Prepare to send *stream* and to close it in the end; the outcome is noted in *access*."""
        self._stream = stream
        self._state = state
        self._hub = state.hub
        self._encoding = encoding
        self._access = access
        self._written_events: Counter[str] = Counter()
        """Events written so far by event type; also counted in worker threads."""
        self._told: Counter[str] = Counter()
        self._sent = SentEvents(self._hub.activity, "hila", access.caller or UNAUTHENTICATED, access.consumer)
        self._builder = PieceBuilder(encoding, GATHER_BYTES)
        self._lines = SubscriptionLines(stream.secret, stream.epoch)
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()
        self._signalled = False
        self._interrupted: str | None = None
        """The reason to end the stream in the middle of a piece; None if there is none."""
        self._closing: asyncio.Future[None] | None = None
        stream.on_wake(self._wake)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the stream ends or the client disconnects."""
        del scope
        disconnect = listen_for_disconnect(receive)
        disconnect.add_done_callback(lambda _: self._settle())
        is_whole = False
        try:
            await await_unless_disconnected(disconnect, send(self._start()), SEND_TIMEOUT)
            # Some servers keep headers back until then.
            await await_unless_disconnected(disconnect, send(_body(b"", more=True)), SEND_TIMEOUT)
            await asyncio.wait({disconnect}, timeout=FIRST_SECONDS)
            if await self._send_all(send, disconnect):
                await self._close()  # First, so that a client that sees the end finds the partitions free.
                last = send(_body(self._builder.end(), more=False))
                is_whole = await await_unless_disconnected(disconnect, last, SEND_TIMEOUT)
        finally:
            gone = "the consumer has left" if disconnect.done() else "the consumer takes nothing"
            disconnect.cancel()
            reason = self._stream.reason or gone
            self._access.refusal.setdefault("reason", reason)
            if not is_whole:
                self._access.cut(reason)
            await self._close()

    async def _close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._state.run(partial(_close, self._hub, self._stream)))
        await asyncio.shield(self._closing)

    async def _send_all(self, send: Send, disconnect: Disconnect) -> bool:
        """Send batches to the end of the stream; return False if the client is gone, or reads nothing."""
        stream = self._stream
        while not disconnect.done():
            self._woken, self._signalled = self._loop.create_future(), False
            try:
                sent = await self._step(send, disconnect)
            except (DatabaseUnavailable, ColdTierUnavailable):
                await asyncio.wait(
                    {disconnect}, timeout=RETRY_INTERVAL
                )  # The stream goes on for as long as its lease holds.
                continue
            except PenstockError as error:
                self._access.refuse(error)
                last = self._builder.begin(self._write_lines(iter([stream.end(str(error))])))
                try:
                    sent = await self._send(last, send, disconnect)
                except PenstockError:  # The consumer takes nothing, and may not read.
                    return False
            if sent is None:
                return False
            if stream.is_over:
                return True
            if not stream.has_work:
                await self._wait(stream.idle_seconds)
            if sent > 0:
                gap = min(GAP_SECONDS_MAX, GAP_SECONDS * len(self._hub.subscriptions.local_streams))
                await asyncio.sleep(max(0.0, self._sent_at + gap - time.monotonic()))
        return False

    async def _wait(self, seconds: float) -> None:
        """Wait until there may be something to do, or the client disconnects, for at most *seconds*."""
        timer = self._loop.call_later(seconds, self._settle)
        try:
            await self._woken
        finally:
            timer.cancel()

    async def _step(self, send: Send, disconnect: Disconnect) -> bool | None:
        """Do a step; return whether it has sent one small piece, or None if the client is gone."""
        needs = self._stream.read_key()
        if needs is None:
            piece = self._builder.begin(self._write_lines(self._stream.step(light=True)))
        elif (flight := self._state.flights.get(needs)) is not None:
            await asyncio.wait({flight, disconnect}, return_when="FIRST_COMPLETED")
            return False
        else:
            make = partial(self._builder.begin, self._write_lines(self._stream.step()))
            flight = asyncio.ensure_future(self._state.run(make))
            self._state.flights[needs] = flight
            flight.add_done_callback(lambda _: self._state.flights.pop(needs, None))
            piece = await flight
        return await self._send(piece, send, disconnect)

    async def _send(self, piece: Piece, send: Send, disconnect: Disconnect) -> bool | None:
        small = not piece.more and piece.kept > 0
        send_one = partial(self._send_one, send, disconnect)
        is_there = await send_ahead(piece, self._builder.next, self._state.run, send_one, self._count_served)
        if self._interrupted is not None and not is_there:
            self._stream.end(self._interrupted)
        self._sent_at = time.monotonic()
        return small if is_there else None

    async def _send_one(self, send: Send, disconnect: Disconnect, piece: Piece) -> bool:
        """Send a piece once the lease allows it; return False if the client is gone, or the stream must end."""
        if not piece.body:
            return True
        stream, self._interrupted = self._stream, None
        until = time.monotonic() + max(stream.seconds_left, SEND_TIMEOUT)
        says_why = stream.is_over and not (piece.more or piece.kept)

        async def is_wanted() -> bool:
            self._interrupted = await self._state.run(stream.find_interruption)
            return self._interrupted is None and time.monotonic() < max(until, stream.commits_until)

        async def sending() -> bool:
            await send(_body(b"", more=True))  # It waits for room in the buffer; until then the piece can be held back.
            while not (stream.is_certain or says_why):  # noqa: ASYNC110 - no thread signals it
                await asyncio.sleep(RETRY_INTERVAL)
            await send(_body(piece.body, more=True))
            return True

        return await await_while_wanted(disconnect, sending(), is_wanted)

    def _write_lines(self, steps: "Iterator[Any]") -> Iterator[bytes]:
        """Yield the lines of the batches that each step sends."""
        for batches in steps:
            for batch in batches:
                self._written_events[batch.place[0]] += len(batch.events)
            if self._sent.activity.is_on:
                for batch in batches:
                    self._sent.note(batch.place[0], batch.events)
            yield from self._lines.parts(self._builder.count_events(deque(batches)))

    def _count_served(self, events: int) -> None:
        self._access.events += events
        for name, count in list(self._written_events.items()):
            if count > self._told[name]:
                self._state.metrics.served.add(name, count - self._told[name])
                self._told[name] = count
        self._sent.record()

    def _wake(self) -> None:
        if not self._signalled and not self._loop.is_closed():
            self._signalled = True
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    def _start(self) -> dict[str, Any]:
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"vary", b"Accept-Encoding"),
            (STREAM_ID.lower().encode(), self._stream.session_id.encode()),
        ]
        if self._encoding:
            headers.append((b"content-encoding", self._encoding.encode()))
        return {"type": "http.response.start", "status": 200, "headers": headers}


def _body(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
