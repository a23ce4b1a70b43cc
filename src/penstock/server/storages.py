"""The routes of storages and timelines: there is one storage, the hub's own database, and one timeline a feed.

Nakadi moves event types from one Kafka cluster to another by them. Clients that ask are told of the one; who wants
another is refused.
"""

from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.registry.event_type import Feed
from penstock.errors import StorageFixed, StorageInUse, StorageNotFound
from penstock.hub.clock import rfc3339
from penstock.server.answers import json_response
from penstock.server.caller import administered
from penstock.server.state import State, event_type_of
from penstock.wire.query import shown

STORAGE: Final = "default"


async def list_storages(request: Request) -> Response:
    """GET /storages: list storages; there is one."""
    return json_response([_storage(await administered(request))])


async def show_storage(request: Request) -> Response:
    """GET /storages/{id}: show a storage."""
    state = await administered(request)
    _check_storage(request)
    return json_response(_storage(state))


async def add_storage(request: Request) -> Response:
    """POST /storages: refused, since there is one storage."""
    await administered(request)
    raise StorageFixed(storage=STORAGE)


async def delete_storage(request: Request) -> Response:
    """DELETE /storages/{id}: refused, since the one storage holds all events."""
    await administered(request)
    _check_storage(request)
    raise StorageInUse(storage=STORAGE)


async def choose_storage(request: Request) -> Response:
    """PUT /storages/default/{id}: have new event types in this storage, as they are anyway."""
    state = await administered(request)
    _check_storage(request)
    return json_response(_storage(state))


async def list_timelines(request: Request) -> Response:
    """GET /event-types/{event_type}/timelines: list an event type's timelines; there is one."""
    state, name = await administered(request), event_type_of(request)
    return json_response([_timeline(await state.run(lambda: state.hub.event_type(name)))])


async def add_timeline(request: Request) -> Response:
    """POST /event-types/{event_type}/timelines: refused, since there is one timeline."""
    state, name = await administered(request), event_type_of(request)
    await state.run(lambda: state.hub.event_type(name))
    raise StorageFixed(storage=STORAGE)


def _check_storage(request: Request) -> None:
    if (given := request.path_params["id"]) != STORAGE:
        raise StorageNotFound(storage=shown(given), existing=STORAGE)


def _storage(state: State) -> dict[str, object]:
    return {"id": STORAGE, "storage_type": state.hub.store.url.partition(":")[0], "default": True}


def _timeline(feed: Feed) -> dict[str, object]:
    created_at = rfc3339(feed.created_at)
    return {
        "id": str(UUID(int=(feed.id << 64) | feed.epoch)),
        "event_type": feed.name,
        "order": feed.epoch,
        "storage_id": STORAGE,
        "topic": feed.name,
        "created_at": created_at,
        "switched_at": created_at,
        "cleaned_up_at": None,
        "latest_position": None,
    }
