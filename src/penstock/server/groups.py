"""The routes of consumer groups: who reads what."""

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.name import is_name
from penstock.errors import EventTypeNotFound
from penstock.server.answers import json_response
from penstock.server.caller import caller_of
from penstock.server.state import state_of
from penstock.wire.query import Query, shown


async def list_groups(request: Request) -> Response:
    """GET /groups: list the consumer groups that the hub keeps positions for."""
    state = await state_of(request)
    event_type = Query(request.scope["query_string"]).text("event_type")
    if event_type is not None and not is_name(event_type):
        raise EventTypeNotFound(event_type=shown(event_type))
    state.hub.check(caller_of(request), "view", event_type)
    groups = await state.run(lambda: state.hub.groups(event_type))
    return json_response(
        {"items": [{"name": each.name, "kind": each.kind, "event_types": each.sources} for each in groups]}
    )
