"""The way in by partition: plain, or idempotent where it is said who publishes, and with which numbers."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.events.event import NewEvent
from penstock.errors import BadProducerHeaders, InvalidEvent, MalformedBatch, MalformedEvent
from penstock.hub.append import Published
from penstock.hub.hub import Hub
from penstock.hub.publish import How
from penstock.hub.stamped import Produced, Who
from penstock.server.access import access_of
from penstock.server.answers import json_response
from penstock.server.body import read_body
from penstock.server.event_types import asked
from penstock.server.feeds import FLOW_ID, cursors_after
from penstock.server.inline import INLINE_BYTES, submitted
from penstock.server.media_types import media_type_of, refuse_foreign_body
from penstock.server.producers import offsets_shown, partition_of
from penstock.wire import producers as wire
from penstock.wire.nakadi import parse_batch
from penstock.wire.zeroeventhub import NDJSON, parse_lines, published


async def publish_to_partition(request: Request) -> Response:
    """POST /event-types/{event_type}/partitions/{partition}/events: publish to a partition, all or none."""
    access = access_of(request)
    state, name = await asked(request, "write")
    access.event = "publish"
    refuse_foreign_body(request)
    media_type = media_type_of(request)
    partition = await partition_of(request, state, name)
    by = wire.parse_headers(request.headers, request.headers.getlist)
    body = await read_body(request, state)
    access.received, access.partitions = len(body), str(partition)
    flow_id = access.flow_id if FLOW_ID in request.headers else None
    is_small = len(body) <= INLINE_BYTES and state.hub.is_light(name, len(body))

    def submit(*, looks: bool = True) -> "Future[Published | None]":
        batch = _read(body, media_type, by)
        how = How(flow_id=flow_id, strict=batch.lines is None, partition=partition)
        return _submit(state.hub, name, batch, how, looks=looks)

    try:
        found = await asyncio.wrap_future(await submitted(state, submit, is_small=is_small))
    except MalformedEvent as error:
        raise InvalidEvent(**error.fields) from None
    assert found is not None
    access.events = found.events
    state.metrics.published.add(name, found.events)
    if found.produced is None:
        return json_response(published(found.events, cursors_after(found)))
    return _answer(found.produced)


class _Batch(NamedTuple):
    by: wire.Given | None
    events: Sequence[NewEvent]
    lines: Sequence[int] | None


def _read(body: bytes, media_type: str, by: wire.Given | None) -> _Batch:
    """Return the events of a body: lines, an array, or an array in an envelope that says who publishes it."""
    lines: Sequence[int] | None = None
    events: Sequence[NewEvent]
    if media_type == wire.ENVELOPE:
        if by is not None:
            raise BadProducerHeaders(parameter=wire.GROUP, value=by.group, allowed="headers or an envelope, not both")
        by, events = wire.parse_envelope(body)
    elif media_type == NDJSON:
        events, lines = parse_lines(body)
    else:
        events = parse_batch(body)
    if not events:
        raise MalformedBatch("the body has no events", reason="it has no events")
    return _Batch(by, events, lines)


def _submit(hub: Hub, name: str, batch: _Batch, how: How, *, looks: bool) -> "Future[Published | None]":
    by = batch.by
    if by is None:
        return hub.submit(name, batch.events, batch.lines, looks=looks, **how)
    assert how["partition"] is not None
    who = Who(name, how["partition"], by.group)
    deadline = None if by.deadline_ms is None else time.monotonic() + by.deadline_ms / 1000
    return hub.produce(who, by.stamp, batch.events, batch.lines, looks=looks, trims=by.trims, deadline=deadline, **how)


def _answer(produced: Produced) -> Response:
    ranges = offsets_shown(produced.ranges)
    numbers = wire.Numbers(produced.first, produced.last, produced.next)
    one = ranges[0] if len(ranges) == 1 else None
    answer = json_response(wire.Result(produced.outcome, produced.epoch, numbers, one, [] if one else ranges))
    answer.headers[wire.EPOCH] = str(produced.epoch)
    answer.headers[wire.NEXT] = str(produced.next)
    return answer
