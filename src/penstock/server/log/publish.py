"""Small publishes are prepared on the event loop, where a trip to a worker thread would take longer than the work.

The way in by batches, in Nakadi's shape: an array of events, all of them or none.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.events.event import NewEvent
from penstock.core.registry.event_type import DELETIONS
from penstock.errors import (
    Conflict,
    EventTooLarge,
    Invalid,
    InvalidEvent,
    MalformedBatch,
    MalformedEvent,
    PartitionRefused,
    PublishingRestricted,
    TooLarge,
)
from penstock.hub.log.request import PublishResult
from penstock.server.access import access_of
from penstock.server.http.requests import read_body, refuse_foreign_body
from penstock.server.http.responses import json_response, warn
from penstock.server.state import State, event_type_of, state_of
from penstock.wire.log.nakadi import aborted_responses, batch_responses, parse_batch
from penstock.wire.producers import refuse_numbers
from penstock.wire.query import printable

INLINE_BYTES: Final = 16 << 10
"""Bodies up to this are read on the event loop."""
Result_co = TypeVar("Result_co", covariant=True)


class Submit(Protocol[Result_co]):
    """Hands a body's events to the hub; *looks* says whether that may wait for the database."""

    def __call__(self, *, looks: bool = True) -> Result_co:
        """See `Log.submit`."""


async def submitted(state: State, submit: Submit[Result_co], *, is_small: bool) -> Result_co:
    """Have *submit* called: on the event loop where it *is_small*, else, or where it is refused there, in a worker."""
    if is_small:
        with suppress(Conflict, Invalid, TooLarge):
            return submit(looks=False)
    again: Callable[[], Result_co] = submit
    return await state.run(again)


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
    body = await read_body(request, state)
    access.received = len(body)
    is_small = len(body) <= INLINE_BYTES and state.hub.registry.is_light(name, len(body))
    events: list[NewEvent] = []

    def submit(*, looks: bool = True) -> "Future[PublishResult | None] | None":
        events[:] = parse_batch(body)
        if not events:
            return None
        return state.hub.log.submit(name, events, looks=looks, flow_id=access.flow_id, strict=True, deletes=deletes)

    try:
        future = await submitted(state, submit, is_small=is_small)
        if future is None:
            await state.run(lambda: state.hub.registry.load(name))
        else:
            await asyncio.wrap_future(future)
    except MalformedEvent as error:
        raise MalformedBatch(line=error.line, reason=error.reason) from None
    except (InvalidEvent, EventTooLarge, PartitionRefused, PublishingRestricted) as error:
        if error.code == "publishing-restricted":
            raise
        access.refuse(error)
        return await state.run(partial(_refused, events, error))  # There can be a million.
    access.events = len(events)
    state.metrics.published.add(name, len(events))
    return warn(Response(status_code=200), [DELETIONS] if deletes else [])


def _check_headers(request: Request) -> None:
    """Raise for what is not spoken here, and for a tag of a subscription that is not there."""
    refuse_foreign_body(request)
    tags = request.headers.getlist(CONSUMER_TAG)
    if tags:
        raise PublishingRestricted.of("unknown-consumer", subscription=printable(tags[0].partition("=")[2].strip()))


def _refused(
    events: list[NewEvent], error: InvalidEvent | EventTooLarge | PartitionRefused | PublishingRestricted
) -> Response:
    if isinstance(error, PublishingRestricted):
        return json_response(aborted_responses(events, error.detail), 422)
    step = "partitioning" if isinstance(error, PartitionRefused) else "validating"
    return json_response(batch_responses(events, (error.line or 1) - 1, step, _detail(error)), 422)


def _detail(error: InvalidEvent | EventTooLarge | PartitionRefused) -> str:
    if isinstance(error, EventTooLarge):
        return f"Event too large: {error.size} bytes, max size is {error.limit} bytes"
    return error.reason
