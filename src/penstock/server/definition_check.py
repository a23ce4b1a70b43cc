"""The route that tells whether an event type could become what a definition says, and does nothing."""

from starlette.requests import Request
from starlette.responses import Response

from penstock.server.body import read_body
from penstock.server.event_types import DEFINITION_BYTES_MAX, asked, parsed


async def check_definition(request: Request) -> Response:
    """POST /event-types/{event_type}/definition-check: tell whether an event type could be so, and do nothing."""
    state, name = await asked(request, "admin")
    definition = parsed(await read_body(request, state, DEFINITION_BYTES_MAX))
    await state.run(lambda: state.hub.check_event_type(name, definition))
    return Response(status_code=204)
