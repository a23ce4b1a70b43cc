"""The routes that publish: feed lines, and batches in Nakadi's shape.

Small bodies are read on the event loop: a trip to a worker thread would take longer than the work.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from penstock.core.events.event import NewEvent
from penstock.core.events.metadata import PUBLISHER
from penstock.core.log.cursor import cursor_prefix
from penstock.errors import (
    Conflict,
    EventTooLarge,
    Invalid,
    InvalidEvent,
    MalformedEvent,
    MalformedRequest,
    OutcomeUnknown,
    PenstockError,
    PublishingRestricted,
    TooLarge,
    Unavailable,
)
from penstock.hub.hub import Hub
from penstock.hub.log.publish import AppendResult, PublishOptions
from penstock.server.auth import admit, admit_at_once, event_type_named, note_publisher, publisher_of
from penstock.server.http.requests import AVRO, check_again, read_body, refuse_avro, refuse_foreign_body, route_path
from penstock.server.http.responses import json_response
from penstock.server.limits import USAGE, RequestUsage
from penstock.server.openapi.operation import HttpOperation
from penstock.server.state import State, event_type_of, state_of
from penstock.server.telemetry import AccessLine, access_in, access_of
from penstock.wire.log import cloudevents, zeroeventhub
from penstock.wire.log.nakadi import make_aborted_responses, make_batch_responses, parse_batch
from penstock.wire.producers import PRODUCER_HEADERS, refuse_numbers
from penstock.wire.query import Query, make_printable

INLINE_BYTES: Final = 16 << 10
"""Larger bodies are read in a worker thread."""
JOINED_BYTES_MAX: Final = 64 << 10
"""Small bodies are joined up to this size."""
REFUSALS_MAX: Final = 2
"""After so many refusals the rest of the publishes that were joined is queued one by one."""
Result_co = TypeVar("Result_co", covariant=True)


class Submit(Protocol[Result_co]):
    """Hands a body's events to the hub. It may wait for the database if *rechecks* is True."""

    def __call__(self, *, rechecks: bool = True) -> Result_co:
        """See `Log.submit`."""


async def submit_events(state: State, submit: Submit[Result_co], *, is_small: bool) -> Result_co:
    """Call *submit*: on the event loop if the body *is_small*, else, or if it is refused there, in a worker thread."""
    if is_small:
        with suppress(Conflict, Invalid, TooLarge):
            return submit(rechecks=False)
    again: Callable[[], Result_co] = submit
    return await state.run(again)


FLOW_ID: Final = "x-flow-id"


async def publish_lines(request: Request) -> Response:
    """POST /feeds/{event_type}: publish lines or CloudEvents, all or none, or by chunks."""
    access, state, name = access_of(request), state_of(request), event_type_of(request)
    refuse_avro(request)
    mode = cloudevents.find_content_mode(request.headers)
    refuse_numbers(request.headers, name)
    query = Query(request.scope["query_string"])
    chunk = query.read_integer("chunk", 0, low=0, high=zeroeventhub.CHUNK_EVENTS_MAX)
    body = await read_body(request, state.run)
    stored, more, access.received = 0, True, len(body)
    cursors: dict[int, str] = {}
    flow_id = (
        access.flow_id if FLOW_ID in request.headers else None
    )  # A flow id made up by the hub would lengthen each line.
    parse = partial(zeroeventhub.parse_lines, body)
    if mode is not None:
        parse = partial(_parse_cloud_events, state.hub, name, mode, request.scope["headers"], body)
    parts = _BodyParts(
        state.hub, name, parse, chunk, PublishOptions(flow_id=flow_id, published_by=publisher_of(request.scope))
    )
    is_small = mode is None and len(body) <= INLINE_BYTES and state.hub.registry.is_light(name, len(body))
    try:
        while more:
            future, more = await submit_events(state, parts.submit, is_small=is_small)
            if future is None:
                break
            part = await state.wait(future)
            assert part is not None
            state.metrics.published.add(name, part.events)
            note_publisher(request.scope, name)
            stored += part.events
            cursors |= cursors_after(part)
            access.events, access.partitions = stored, ",".join(map(str, sorted(cursors)))
            if more:
                await _let_others(request.scope, len(body))
    except PenstockError as error:
        # One code for a wrong line; and a copy, since all whose commit has failed get the same error.
        refusal = InvalidEvent(**error.fields) if type(error) is MalformedEvent else copy(error)
        if chunk:
            refusal.fields["stored"] = stored
        raise refusal from error.__cause__
    if not stored:
        await state.run(lambda: state.hub.registry.load(name))
    return json_response(zeroeventhub.publish_response(stored, cursors))


def _parse_cloud_events(
    hub: Hub, name: str, mode: cloudevents.ContentMode, headers: Iterable[tuple[bytes, bytes]], body: bytes
) -> tuple[Sequence[NewEvent], Sequence[int]]:
    """Return the events of a body with CloudEvents, and their numbers, from 1. It may ask the database."""
    event_type = hub.registry.load(name).event_type
    if mode == "batched":
        events = cloudevents.parse_batch(body, event_type)
    elif mode == "structured":
        events = [cloudevents.parse_structured(body, event_type)]
    else:
        events = [cloudevents.parse_binary(headers, body, event_type)]
    return events, range(1, len(events) + 1)


async def _let_others(scope: Scope, size: int) -> None:
    """Between two chunks, let other requests of the same caller have a turn, and see whether it may still publish."""
    usage: RequestUsage | None = scope.get(USAGE)
    if usage is not None:
        usage.end_turn()
        if (turn := usage.take_turn(size)) is not None:
            await turn
    check_again(scope)


_FEEDS: Final = "/feeds/"
_log: Final = structlog.get_logger("penstock.http")
_SPECIAL_HEADERS: Final = frozenset(
    [
        *(b"content-encoding", b"transfer-encoding", b"upgrade"),
        *(b"ce-specversion", b"ce-id", b"ce-source", b"ce-type"),
        *(each.lower().encode() for each in PRODUCER_HEADERS),
    ]
)
"""Headers that say how a body is to be read; those of idempotent producers belong to them."""
_DIGITS_MAX: Final = 9
_SPECIAL_TYPES: Final = (b"application/cloudevents", AVRO.encode())
_HEADERS: Final = ((b"content-type", b"application/json"), (b"vary", b"Accept-Encoding"))
_LINES: Final = b"content-type: application/json\r\nvary: Accept-Encoding\r\nx-flow-id: %b\r\n"


class WholeRequest(Protocol):
    """A request that a server has received whole, to be answered without a task."""

    def answer(self, status: int, lines: bytes, body: bytes) -> None:
        """Send the whole answer with these header *lines*; nothing to a client that has disconnected."""

    def run(self) -> None:
        """Have the application answer it, in a task of its own."""

    def abort(self) -> None:
        """Close its connection without an answer."""


class PlainPublishes:
    """Answers small publishes of lines without the framework, if the body has arrived completely.

    Bodies that arrive in one turn of the event loop, of one caller for one event type, are joined to one request of the
    log, because preparing and queueing a request takes longer than all else that is done for a single event. Each is
    answered as if it had come alone; the framework's handlers answer those that are refused.
    """

    def __init__(self, state: State, operation: HttpOperation, end: Callable[[Scope, AccessLine], None]) -> None:
        """Answer requests of *operation*, the routing table's entry for `publish_lines`.

        *end* is called at the end of a request that `take` has answered.
        """
        assert operation.needs is not None
        self._state = state
        self._permission = operation.needs
        self._event = operation.event
        self._route = f"{operation.method} {operation.path}"
        self._end = end
        self._arriving: _Arriving | None = None

    @staticmethod
    def find_event_type(scope: Scope) -> str | None:
        """Return the event type that a POST request publishes to, if it may be a plain one: it has no query."""
        if scope["query_string"]:
            return None
        path = route_path(scope)
        return path[len(_FEEDS) :] if path.startswith(_FEEDS) else None

    async def serve(self, name: str, scope: Scope, receive: Receive, access: AccessLine) -> Receive | None:
        """Publish the body of a request to the event type *name*, and return None once the request is answered.

        This applies if no header changes how the body is read, and if the hub can accept the lines by the definition in
        memory. `publish_lines` answers every other request: the returned function replays the received body to it.

        Raises:
            PenstockError: the sender may not publish, or the events were not stored, or that is unknown; nothing is
                answered.
        """
        if (failed := scope.pop(_FAILED, None)) is not None:
            raise failed
        length, has_flow_id = read_plain_head(scope["headers"])
        if not self._is_light(name, length) or _TAKEN in scope:
            return receive
        self._describe(access, name)
        received = [await receive()]
        body = received[0].get("body", b"")
        if received[0].get("more_body") and len(body) == length:  # Some servers say so in a message of its own.
            received.append(await receive())
        again = _replay(received, receive)
        size = sum(len(each.get("body", b"")) for each in received)
        if received[-1]["type"] != "http.request" or received[-1].get("more_body") or not size == len(body) == length:
            return again
        await admit(
            scope, self._permission, event_type_named(name)
        )  # Not before the body is there, which may take long.
        usage: RequestUsage | None = scope.get(USAGE)
        if usage is not None and (turn := usage.take_turn()) is not None:
            await turn
            check_again(scope)
        access.received = length
        future: asyncio.Future[AppendResult | None] = asyncio.get_running_loop().create_future()
        flow_id = access.flow_id if has_flow_id else None
        self._publish(name, scope, body, flow_id=flow_id, end=partial(_end_future, future))
        stored = await future
        if stored is None:
            access.received = None
            return again
        answer = self._note_stored(scope, access, stored)
        await access.answer(200, ((b"content-length", b"%d" % len(answer)), *_HEADERS), answer)
        return None

    def take(self, name: str, scope: Scope, body: bytes, request: WholeRequest) -> bool:
        """Publish the *body* of a whole request to the event type *name*; return False if that may have to wait.

        It has to be a request that `serve` would answer, without a flow id, and to have its access line.
        """
        if not self._is_light(name, len(body)):
            return False
        access = access_in(scope)
        self._describe(access, name)
        if not admit_at_once(scope, self._permission, event_type_named(name)):
            return False
        usage: RequestUsage | None = scope.get(USAGE)
        if usage is not None and not usage.take_turn_at_once():
            return False

        def end(outcome: Outcome) -> None:
            if isinstance(outcome, AppendResult):
                try:
                    answer = self._note_stored(scope, access, outcome)
                    access.note_answer(200, answer)
                    request.answer(200, _LINES % access.flow_id.encode("ascii"), answer)
                    self._end(scope, access)
                except Exception:  # noqa: BLE001 - One defect keeps no other publish of the commit from its answer.
                    _log.exception("a stored publish was not answered", event_type=name)
                    request.abort()
                return
            if outcome is None:
                access.received = None
                scope[_TAKEN] = True
            else:
                scope[_FAILED] = outcome
            request.run()

        access.received = len(body)
        self._publish(name, scope, body, flow_id=None, end=end)
        return True

    def _is_light(self, name: str, length: int) -> bool:
        """Return whether an event loop may check a body of *length* bytes for the event type *name*."""
        feed = self._state.hub.registry.remembered.get(name) if self._state.has_started else None
        return feed is not None and 0 < length <= INLINE_BYTES and feed.event_type.is_light(length)

    def _describe(self, access: AccessLine, name: str) -> None:
        access.event, access.feed, access.route = self._event, name, self._route

    def _note_stored(self, scope: Scope, access: AccessLine, stored: AppendResult) -> bytes:
        """Return the answer to a publish that is stored."""
        usage: RequestUsage | None = scope.get(USAGE)
        if usage is not None:
            usage.receive(access.received or 0)
        note_publisher(scope, stored.feed.name)
        cursors = cursors_after(stored)
        access.events, access.partitions = stored.events, ",".join(map(str, sorted(cursors)))
        return msgspec.json.encode(zeroeventhub.publish_response(stored.events, cursors))

    def _publish(self, name: str, scope: Scope, body: bytes, *, flow_id: str | None, end: "_End") -> None:
        """Publish the lines of *body* with those that arrive together, and call *end* with the outcome."""
        feed = self._state.hub.registry.remembered[name]
        has_metadata = feed.event_type.category != "undefined"
        source = _Source(name, flow_id, publisher_of(scope) if has_metadata else PUBLISHER)
        loop = asyncio.get_running_loop()
        if self._arriving is None or self._arriving.loop is not loop:
            self._arriving = _Arriving(loop, {})
            loop.call_soon(self._submit_all, self._arriving)
        lines = body.count(b"\n") + (not body.endswith(b"\n"))
        self._arriving.publishes.setdefault(source, []).append(_SmallPublish(body, lines, end))

    def _submit_all(self, arrived: "_Arriving") -> None:
        if self._arriving is arrived:
            self._arriving = None
        for source, publishes in arrived.publishes.items():
            for joined in _join(publishes):
                self._submit(source, joined)

    def _submit(
        self, source: "_Source", publishes: "Sequence[_SmallPublish]", refusals_max: int = REFUSALS_MAX
    ) -> None:
        """Queue *publishes* as one request.

        One that is refused takes the long way, and the others are queued without it; each for itself once
        *refusals_max* were refused. So none concerns another.
        """
        try:
            queued = self._queue(source, publishes)
        except Exception as error:  # noqa: BLE001 - It is answered.
            refused = publishes[0] if len(publishes) == 1 else _find_refused(publishes, error)
            if refused is None or not refusals_max:
                self._submit_each(source, publishes)
                return
            refused.end(None if isinstance(error, PenstockError) else error)
            if rest := [each for each in publishes if each is not refused]:
                self._submit(source, rest, refusals_max - 1)
            return
        if queued is not None:
            self._state.wait(queued).add_done_callback(partial(self._deliver, source.event_type, publishes))
        elif len(publishes) == 1:
            publishes[0].end(None)
        else:
            self._submit_each(source, publishes)

    def _submit_each(self, source: "_Source", publishes: "Sequence[_SmallPublish]") -> None:
        for each in publishes:
            self._submit(source, [each], 1)

    def _queue(self, source: "_Source", publishes: "Sequence[_SmallPublish]") -> "Future[AppendResult | None] | None":
        """Queue the events of *publishes*; return None if they cannot be prepared together on an event loop.

        Raises:
            PenstockError: some are refused; nothing was queued.
        """
        name, flow_id, published_by = source
        body = _join_bodies(publishes)
        feed = self._state.hub.registry.remembered.get(name) if self._state.has_started else None
        if feed is None or not feed.event_type.is_light(len(body)):
            return None
        events, _ = zeroeventhub.parse_lines(body)
        if len(events) != sum(each.lines for each in publishes):
            return None  # Some lines are empty, or checkpoints, or not divided where the bodies are.
        return self._state.hub.log.submit(name, events, rechecks=False, flow_id=flow_id, published_by=published_by)

    def _deliver(
        self,
        name: str,
        publishes: "Sequence[_SmallPublish]",
        stored: "asyncio.Future[AppendResult | None]",
    ) -> None:
        error = asyncio.CancelledError() if stored.cancelled() else stored.exception()
        if error is None:
            result = stored.result()
            assert result is not None
            self._state.metrics.published.add(name, result.events)
            counts = [each.lines for each in publishes]
            parts = [result] if len(publishes) == 1 else result.split(counts)
            for each, part in zip(publishes, parts, strict=True):
                each.end(part)
        elif isinstance(error, PenstockError) and not isinstance(error, (Unavailable, OutcomeUnknown)):
            for each in publishes:  # The event type has changed, and refuses one of them now: nothing is stored.
                each.end(None)
        else:
            for each in publishes:
                each.end(error)


def read_plain_head(headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, bool]:
    """Return the length of a body of lines, and whether the client has given a flow id.

    The length is 0 if it is not known, if a header says how the body is to be read, or if one is repeated.
    """
    found = dict(headers)
    length, content_type = found.get(b"content-length", b""), found.get(b"content-type", b"")
    is_special = len(found) < len(headers) or not _SPECIAL_HEADERS.isdisjoint(found)
    if (
        is_special
        or not length.isdigit()
        or len(length) > _DIGITS_MAX
        or content_type.lower().startswith(_SPECIAL_TYPES)
    ):
        return 0, False
    return int(length), b"x-flow-id" in found


Outcome: TypeAlias = AppendResult | BaseException | None
"""What became of a small publish; None: the long way has to answer it."""
_End: TypeAlias = Callable[[Outcome], None]
_FAILED: Final = "penstock.publish-failed"
"""The scope's key for the error with which a publish ended that `take` has taken; nothing was answered."""
_TAKEN: Final = "penstock.publish-taken"
"""The scope's key of a request that `take` has taken, and that has to go the long way."""


def _end_future(future: "asyncio.Future[AppendResult | None]", outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class _Source(NamedTuple):
    """The properties that small publishes must share to be joined."""

    event_type: str
    flow_id: str | None
    published_by: str


class _Arriving(NamedTuple):
    """The publishes that arrive in one turn of an event loop, grouped by the properties that they share."""

    loop: asyncio.AbstractEventLoop
    publishes: "dict[_Source, list[_SmallPublish]]"


class _SmallPublish(NamedTuple):
    body: bytes
    lines: int
    """The number of its lines: that of its events, if none is empty."""
    end: _End


def _find_refused(publishes: Sequence[_SmallPublish], error: Exception) -> _SmallPublish | None:
    """Return the one of *publishes* whose event *error* names by its number among all; None if it names none."""
    line = getattr(error, "line", None)
    if line is None:
        return None
    stops = list(accumulate(each.lines for each in publishes))
    return publishes[bisect_left(stops, line)] if line <= stops[-1] else None


def _join_bodies(publishes: Sequence[_SmallPublish]) -> bytes:
    """Return the lines of all bodies; each body ends where a line ends."""
    if len(publishes) == 1:
        return publishes[0].body
    return b"".join([each.body if each.body.endswith(b"\n") else each.body + b"\n" for each in publishes])


def _join(publishes: Sequence[_SmallPublish]) -> Iterator[Sequence[_SmallPublish]]:
    """Yield *publishes* in runs of up to `JOINED_BYTES_MAX`, or of a single larger one."""
    run: list[_SmallPublish] = []
    size = 0
    for each in publishes:
        if run and size + len(each.body) > JOINED_BYTES_MAX:
            yield run
            run, size = [], 0
        run.append(each)
        size += len(each.body)
    if run:
        yield run


def _replay(received: list[Message], receive: Receive) -> Receive:
    """Return a function that gives *received*, then what *receive* gives."""

    async def receive_again() -> Message:
        return received.pop(0) if received else await receive()

    return receive_again


class _BodyParts:
    """The events of a body, submitted as one part or chunk by chunk."""

    def __init__(
        self,
        hub: Hub,
        name: str,
        parse: Callable[[], tuple[Sequence[NewEvent], Sequence[int]]],
        chunk: int,
        options: PublishOptions,
    ) -> None:
        """*parse* returns the events, and their numbers in errors."""
        self._hub = hub
        self._name = name
        self._parse = parse
        self._chunk = chunk
        self._options = options
        self._read: tuple[Sequence[NewEvent], Sequence[int]] | None = None
        self._at = 0

    def submit(self, *, rechecks: bool = True) -> "tuple[Future[AppendResult | None] | None, bool]":
        """Submit the next part, and return whether another one follows; the future is None if there is no event."""
        events, lines = self._read = self._read or self._parse()
        if not events:
            return None, False
        part = slice(self._at, self._at + (self._chunk or len(events)))
        future = self._hub.log.submit(self._name, events[part], lines[part], rechecks=rechecks, **self._options)
        self._at = part.stop
        return future, part.stop < len(events)


def cursors_after(published: AppendResult) -> dict[int, str]:
    """Return the cursor just after the published events, by partition."""
    feed = published.feed
    name, epoch, count = feed.name, feed.epoch, feed.partition_count
    return {
        partition: f"{cursor_prefix(name, epoch, count, partition)}{offset}"
        for partition, offset in published.next_offsets.items()
    }


CONSUMER_TAG: Final = "x-consumer-tag"


async def publish_batch(request: Request) -> Response:
    """POST /event-types/{event_type}/events: publish an array of events, all or none."""
    return await _publish(request, deletes=False)


async def delete_events(request: Request) -> Response:
    """POST /event-types/{event_type}/deleted-events: mark the earlier events of these events' keys as deleted."""
    return await _publish(request, deletes=True)


async def _publish(request: Request, *, deletes: bool) -> Response:
    access = access_of(request)
    state, name = state_of(request), event_type_of(request)
    _check_headers(request)
    refuse_numbers(request.headers, name)
    body = await read_body(request, state.run)
    access.received = len(body)
    is_small = len(body) <= INLINE_BYTES and state.hub.registry.is_light(name, len(body))
    events: list[NewEvent] = []

    def submit(*, rechecks: bool = True) -> "Future[AppendResult | None] | None":
        events[:] = parse_batch(body)
        if not events:
            return None
        return state.hub.log.submit(
            name,
            events,
            rechecks=rechecks,
            flow_id=access.flow_id,
            strict=True,
            deletes=deletes,
            published_by=publisher_of(request.scope),
        )

    try:
        future = await submit_events(state, submit, is_small=is_small)
        if future is None:
            await state.run(lambda: state.hub.registry.load(name))
        else:
            await state.wait(future)
    except MalformedEvent as error:
        raise MalformedRequest.of("malformed-batch", line=error.line, reason=error.reason) from None
    except (InvalidEvent, EventTooLarge, PublishingRestricted) as error:
        if error.code == "publishing-restricted":
            raise
        access.refuse(error)
        return await state.run(partial(_answer_refused, events, error))  # It can have a million events.
    access.events = len(events)
    state.metrics.published.add(name, len(events))
    if events:
        note_publisher(request.scope, name)
    return Response(status_code=200)


def _check_headers(request: Request) -> None:
    """Raise for a media type that is not supported, and for a consumer tag, which names no known subscription."""
    refuse_foreign_body(request)
    tags = request.headers.getlist(CONSUMER_TAG)
    if tags:
        raise PublishingRestricted.of(
            "unknown-consumer", subscription=make_printable(tags[0].partition("=")[2].strip())
        )


def _answer_refused(events: list[NewEvent], error: InvalidEvent | EventTooLarge | PublishingRestricted) -> Response:
    if isinstance(error, PublishingRestricted):
        return json_response(make_aborted_responses(events, error.detail), 422)
    step = "partitioning" if error.code == "partition-refused" else "validating"
    return json_response(make_batch_responses(events, (error.line or 1) - 1, step, _detail(error)), 422)


def _detail(error: InvalidEvent | EventTooLarge) -> str:
    if isinstance(error, EventTooLarge):
        return f"Event too large: {error.size} bytes, max size is {error.limit} bytes"
    return error.reason
