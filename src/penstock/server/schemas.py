"""The routes of event types' schemas, in Nakadi's shape."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.hub.hub import Hub
from penstock.hub.registry import Comparison
from penstock.server.answers import json_response
from penstock.server.body import parsed, read_body
from penstock.server.event_types import DEFINITION_BYTES_MAX, asked
from penstock.server.links import page_links
from penstock.wire.nakadi import SCHEMAS_MAX, schema_pages
from penstock.wire.query import WHOLE_NUMBER_MAX, Query, shown

LIMIT: Final = 20
PAGE_BYTES: Final = 8 << 20
"""A page ends with the version by which it has so many: one may have 1 MiB, and there may be a thousand."""


async def list_schemas(request: Request) -> Response:
    """GET /event-types/{event_type}/schemas: list the versions of an event type's schema, newest first."""
    state, name = await asked(request, "view")
    query = Query(request.scope["query_string"])
    limit = query.integer("limit", LIMIT, low=1, high=SCHEMAS_MAX)
    offset = query.integer("offset", 0, low=0, high=WHOLE_NUMBER_MAX)

    def listed() -> Response:
        items, more = _page(state.hub, name, limit, offset)
        path = f"/event-types/{name}/schemas"
        links = page_links(request, path, schema_pages(len(items), limit=limit, offset=offset, more=more))
        return json_response({"items": items, "_links": links})

    return await state.run(listed)


async def add_schema(request: Request) -> Response:
    """POST /event-types/{event_type}/schemas: give an event type another schema, or look for the version that is so."""
    state, name = await asked(request, "admin")
    fetch = Query(request.scope["query_string"]).flag("fetch")
    body = await read_body(request, state, DEFINITION_BYTES_MAX)

    def done() -> Response:
        given = parsed(body)
        if fetch:
            return json_response(state.hub.schema_like(name, given))
        state.hub.add_schema(name, given)
        return Response(status_code=200)

    return await state.run(done)


async def show_schema(request: Request) -> Response:
    """GET /event-types/{event_type}/schemas/{version}: show one version of an event type's schema, or the latest."""
    state, name = await asked(request, "view")
    version = shown(request.path_params["version"])
    return await state.run(lambda: json_response(state.hub.schema(name, version)))


async def compare_schema(request: Request) -> Response:
    """POST /event-types/{event_type}/schemas/{version}/compatibility-check: tell what another schema would mean."""
    state, name = await asked(request, "view")
    version = shown(request.path_params["version"])
    body = await read_body(request, state, DEFINITION_BYTES_MAX)

    def compared() -> Response:
        return json_response(_shown(state.hub.compare_schema(name, version, parsed(body))))

    return await state.run(compared)


def _page(hub: Hub, name: str, limit: int, offset: int) -> tuple[list[msgspec.Raw], bool]:
    """Return *limit* versions without the newest *offset*, fewer where they are large; and whether more follow.

    They are looked up by some and kept as JSON, so that no more is held than a page, and the rest of a look.
    """
    items: list[msgspec.Raw] = []
    size = 0
    while True:
        wanted = min(limit - len(items), LIMIT) + 1
        found = hub.schemas(name, limit=wanted, offset=offset + len(items))
        for each in found:
            if len(items) == limit or size >= PAGE_BYTES:
                return items, True
            items.append(msgspec.Raw(msgspec.json.encode(each)))
            size += len(items[-1])
        if len(found) < wanted:
            return items, False


def _shown(found: Comparison) -> dict[str, Any]:
    answer = {
        "compatible": found.refused is None,
        "compatibility_mode": found.compared.compatibility_mode,
        "evolution": found.compared.evolution,
        "validated_against_version": found.compared.schema_version,
        "version": found.version,
        "producers": found.producers,
        "consumers": found.consumers,
        "changes": found.changes,
    }
    return answer if found.refused is None else answer | {"error": found.refused.detail}
