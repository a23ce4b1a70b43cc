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

from penstock.errors import DatabaseUnavailable, PenstockError
from penstock.hub.hub import Hub
from penstock.hub.subscriptions.consumer_stream import ConsumerStream
from penstock.server.access import Access, access_of
from penstock.server.auth import authorize, event_type_named
from penstock.server.http.encoding import choose_encoding, choose_form
from penstock.server.http.requests import read_body
from penstock.server.http.streaming import Gathering, Leaving, Piece, leaving, send_ahead, unless, while_wanted
from penstock.server.state import State, state_of, subscription_of
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
"""More than other streams gather: each piece is made by a worker thread, which takes longer to wake than to make it."""
GAP_SECONDS: Final = 0.0005
"""So long for each stream of the hub a stream lets events gather after it has sent some: longer than a sending costs,
so that time is left for those who publish and commit, …"""
GAP_SECONDS_MAX: Final = 0.050
"""… and no longer than this."""
FIRST_SECONDS: Final = 0.050
"""So long after its headers a stream begins: some clients lose what comes together with them (pyNakadi)."""
STUCK_SECONDS: Final = 10.0
"""So long at least a client may take for a piece, which is told why the stream ends; others wait for what it has."""
RETRY_INTERVAL: Final = 0.25
"""How soon a stream tries again that could not ask the database."""
_log: Final = structlog.get_logger("penstock.subscriptions")


async def stream_by_query(request: Request) -> Any:
    """GET /subscriptions/{subscription}/events: stream batches of a subscription's events."""
    return await _stream(request, parse_stream_query(Query(request.scope["query_string"])))


async def stream_by_body(request: Request) -> Any:
    """POST /subscriptions/{subscription}/events: stream batches of a subscription's events, of chosen partitions."""
    choose_form(request, MEDIA_TYPE)
    state = state_of(request)
    return await _stream(request, parse_stream_body(await read_body(request, state, BODY_BYTES_MAX)))


async def _stream(request: Request, given: RawStreamParameters) -> Any:
    access, state = access_of(request), state_of(request)
    subscription_id = access.consumer = subscription_of(request)
    hub = state.hub
    asked = check_stream_parameters(given, hub.limits)
    subscription = await state.run(lambda: hub.subscriptions.find(subscription_id))
    names = subscription.definition["event_types"]
    access.feed = ",".join(names)

    def allowed() -> None:
        for name in names:
            authorize(request, "read", event_type_named(name))

    allowed()
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    stream = await _opened(
        state, lambda: hub.subscriptions.streams.open(subscription_id, asked.wants, asked.rules, allowed)
    )
    encoding = choose_encoding(request.headers.get("accept-encoding"))
    return SubscriptionStream(stream, state, access, encoding=encoding)


async def _opened(state: State, open_stream: Callable[[], ConsumerStream]) -> ConsumerStream:
    """Return a stream that has been opened in a worker thread, which is closed again where nobody waits for it."""
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
    except Exception as error:  # noqa: BLE001 - whatever it is: a stream that is not closed keeps what it has
        _log.warning("a stream could not be closed, trying again", stream=stream.session_id, error=str(error))
        hub.subscriptions.lease.close_later(stream.close)


class SubscriptionStream:
    """One stream for one consumer: an ASGI response."""

    def __init__(self, stream: ConsumerStream, state: State, access: Access, *, encoding: str | None) -> None:
        """Prepare to send *stream*, and to close it in the end; *access* is told how that went."""
        self._stream = stream
        self._state = state
        self._hub = state.hub
        self._encoding = encoding
        self._access = access
        self._written_events: Counter[str] = Counter()
        """By event type, how many events were written so far; in worker threads, too."""
        self._told: Counter[str] = Counter()
        self._gathering = Gathering(encoding, GATHER_BYTES)
        self._lines = SubscriptionLines(stream.secret, stream.epoch)
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()
        self._signalled = False
        self._interrupted: str | None = None
        """Why the stream is to end in the midst of what is being sent."""
        self._closing: asyncio.Future[None] | None = None
        stream.on_wake(self._wake)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the stream is over or the client has left."""
        del scope
        left = leaving(receive)
        left.add_done_callback(lambda _: self._settle())
        try:
            await unless(left, send(self._start()), STUCK_SECONDS)
            await unless(left, send(_body(b"", more=True)), STUCK_SECONDS)  # Some servers keep headers back until then.
            await asyncio.wait({left}, timeout=FIRST_SECONDS)
            if await self._send_all(send, left):
                await self._close()  # Before its end is told: who hears that finds the partitions free.
                await unless(left, send(_body(self._gathering.end(), more=False)), STUCK_SECONDS)
        finally:
            gone = "the consumer has left" if left.done() else "the consumer takes nothing"
            left.cancel()
            self._access.refusal.setdefault("reason", self._stream.reason or gone)
            await self._close()

    async def _close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._state.run(partial(_close, self._hub, self._stream)))
        await asyncio.shield(self._closing)

    async def _send_all(self, send: Send, left: Leaving) -> bool:
        """Send batches until there are no more to be sent; False: the client is gone, or takes nothing."""
        stream = self._stream
        while not left.done():
            self._woken, self._signalled = self._loop.create_future(), False
            try:
                sent = await self._step(send, left)
            except DatabaseUnavailable:
                await asyncio.wait({left}, timeout=RETRY_INTERVAL)  # As long as its lease holds a stream goes on.
                continue
            except PenstockError as error:
                self._access.refuse(error)
                sent = await self._send(
                    self._gathering.begin(self._written(iter([stream.end(str(error))]))), send, left
                )
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
        """Wait until there may be something to do, or the client has left, but no longer than that."""
        timer = self._loop.call_later(seconds, self._settle)
        try:
            await self._woken
        finally:
            timer.cancel()

    async def _step(self, send: Send, left: Leaving) -> bool | None:
        """Do a step; tell whether it has sent a little, None: the client is gone."""
        needs = self._stream.read_key()
        if needs is None:
            piece = self._gathering.begin(self._written(self._stream.step(light=True)))
        elif (flight := self._state.flights.get(needs)) is not None:
            await asyncio.wait({flight, left}, return_when="FIRST_COMPLETED")
            return False
        else:
            make = partial(self._gathering.begin, self._written(self._stream.step()))
            flight = asyncio.ensure_future(self._state.run(make))
            self._state.flights[needs] = flight
            flight.add_done_callback(lambda _: self._state.flights.pop(needs, None))
            piece = await flight
        return await self._send(piece, send, left)

    async def _send(self, piece: Piece, send: Send, left: Leaving) -> bool | None:
        small = not piece.more and piece.kept > 0
        send_one = partial(self._send_one, send, left)
        is_there = await send_ahead(piece, self._gathering.next, self._state.run, send_one, self._served)
        if self._interrupted is not None and not is_there:
            self._stream.end(self._interrupted)
        self._sent_at = time.monotonic()
        return small if is_there else None

    async def _send_one(self, send: Send, left: Leaving, piece: Piece) -> bool:
        """Send a piece that may be sent; False: the client is gone, or takes nothing, or the stream is to end."""
        stream, self._interrupted = self._stream, None
        until = time.monotonic() + max(stream.seconds_left, STUCK_SECONDS)
        says_why = stream.is_over and not (piece.more or piece.kept)

        async def is_wanted() -> bool:
            self._interrupted = await self._state.run(stream.find_interruption)
            return self._interrupted is None and time.monotonic() < max(until, stream.commits_until)

        async def sending() -> bool:
            await send(_body(b"", more=True))  # Waits for room, so that it can still be held back meanwhile.
            while not (stream.is_certain or says_why):  # noqa: ASYNC110 - `is_wanted` finds out, and no thread says so
                await asyncio.sleep(RETRY_INTERVAL)
            await send(_body(piece.body, more=True))
            return True

        return await while_wanted(left, sending(), is_wanted)

    def _written(self, steps: "Iterator[Any]") -> Iterator[bytes]:
        """Write the lines of what each step sends."""
        for batches in steps:
            for batch in batches:
                self._written_events[batch.place[0]] += len(batch.events)
            yield from self._lines.parts(self._gathering.counted(deque(batches)))

    def _served(self, events: int) -> None:
        self._access.events += events
        for name, count in list(self._written_events.items()):
            if count > self._told[name]:
                self._state.metrics.served.add(name, count - self._told[name])
                self._told[name] = count

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
