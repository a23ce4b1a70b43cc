"""The routes of event types' schemas, in Nakadi's shape."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.server.answers import json_response
from penstock.server.body import read_body
from penstock.server.event_types import DEFINITION_BYTES_MAX, asked, parsed
from penstock.wire.nakadi import SCHEMAS_MAX, schemas_object
from penstock.wire.query import WHOLE_NUMBER_MAX, Query, shown

LIMIT: Final = 20


async def list_schemas(request: Request) -> Response:
    """GET /event-types/{event_type}/schemas: list the versions of an event type's schema, newest first."""
    state, name = await asked(request, "view")
    query = Query(request.scope["query_string"])
    limit = query.integer("limit", LIMIT, low=1, high=SCHEMAS_MAX)
    offset = query.integer("offset", 0, low=0, high=WHOLE_NUMBER_MAX)
    found = await state.run(lambda: state.hub.schemas(name, limit=limit + 1, offset=offset))
    path = f"/event-types/{name}/schemas"
    more = len(found) > limit
    return json_response(schemas_object(path, found[:limit], limit=limit, offset=offset, more=more))


async def add_schema(request: Request) -> Response:
    """POST /event-types/{event_type}/schemas: give an event type another schema, or look for the version that is so."""
    state, name = await asked(request, "admin")
    fetch = Query(request.scope["query_string"]).flag("fetch")
    given = parsed(await read_body(request, state, DEFINITION_BYTES_MAX))
    if fetch:
        return json_response(await state.run(lambda: state.hub.schema_like(name, given)))
    await state.run(lambda: state.hub.add_schema(name, given))
    return Response(status_code=200)


async def show_schema(request: Request) -> Response:
    """GET /event-types/{event_type}/schemas/{version}: show one version of an event type's schema, or the latest."""
    state, name = await asked(request, "view")
    version = shown(request.path_params["version"])
    return json_response(await state.run(lambda: state.hub.schema(name, version)))


async def compare_schema(request: Request) -> Response:
    """POST /event-types/{event_type}/schemas/{version}/compatibility-check: tell what another schema would mean."""
    state, name = await asked(request, "view")
    version = shown(request.path_params["version"])
    given = parsed(await read_body(request, state, DEFINITION_BYTES_MAX))
    text = given.get("schema") if isinstance(given, dict) else None
    found = await state.run(lambda: state.hub.compare_schema(name, version, text))
    answer = {
        "compatible": found.refused is None,
        "compatibility_mode": found.compared.compatibility_mode,
        "validated_against_version": found.compared.schema_version,
        "version": found.version,
        "producers": found.producers,
        "consumers": found.consumers,
        "changes": found.changes,
    }
    return json_response(answer if found.refused is None else answer | {"error": found.refused.detail})
