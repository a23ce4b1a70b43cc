"""The routes of event types, in Nakadi's shape."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.event_type import Feed
from penstock.errors import BadParameter
from penstock.hub.clock import rfc3339
from penstock.server.answers import json_response
from penstock.server.body import read_body
from penstock.server.settling import settle
from penstock.server.state import event_type_of, state_of
from penstock.wire.nakadi import event_type_object, partition_object

DEFINITION_BYTES_MAX: Final = 1024 * 1024


async def list_event_types(request: Request) -> Response:
    """GET /event-types: list event types, sorted by name."""
    state = await state_of(request)
    feeds = await state.run(state.hub.event_types)
    return json_response([_shown(feed) for feed in feeds])


async def create_event_type(request: Request) -> Response:
    """POST /event-types: create an event type."""
    state = await state_of(request)
    definition = _parsed(await read_body(request, state, DEFINITION_BYTES_MAX))
    await state.run(lambda: state.hub.create_event_type(definition))
    return Response(status_code=201)


async def show_event_type(request: Request) -> Response:
    """GET /event-types/{event_type}: show an event type."""
    state, name = await state_of(request), event_type_of(request)
    return json_response(_shown(await state.run(lambda: state.hub.event_type(name))))


async def delete_event_type(request: Request) -> Response:
    """DELETE /event-types/{event_type}: drop an event type with all its events."""
    state, name = await state_of(request), event_type_of(request)
    await state.run(lambda: state.hub.delete_event_type(name))
    return Response(status_code=200)


async def list_partitions(request: Request) -> Response:
    """GET /event-types/{event_type}/partitions: show where each partition begins and ends, the outbox included."""
    state, name = await state_of(request), event_type_of(request)
    if await state.run(lambda: state.hub.waits_in_outbox(name)):
        await settle(state.hub, name)
    feed, heads = await state.run(lambda: state.hub.heads(name))
    return json_response(
        [
            partition_object(feed.epoch, number, heads[partition_id].floor, heads[partition_id].next_offset)
            for number, partition_id in enumerate(feed.partition_ids)
            if partition_id in heads
        ]
    )


def _shown(feed: Feed) -> dict[str, Any]:
    return event_type_object(
        feed.event_type.definition,
        category=feed.event_type.category,
        partition_strategy=feed.event_type.partition_strategy,
        partition_count=feed.partition_count,
        created_at=rfc3339(feed.created_at),
        updated_at=rfc3339(feed.updated_at),
    )


def _parsed(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadParameter(f"the body is not JSON: {error}", parameter="body", allowed="JSON") from None
