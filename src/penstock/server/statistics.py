"""The route of statistics: how many events all event types have, for lists of thousands of them."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.times import format_time
from penstock.errors import DatabaseUnavailable
from penstock.server.auth import event_type_named, keep_seen
from penstock.server.http.responses import json_response
from penstock.server.state import EventTypeFigures, state_of


async def show_statistics(request: Request) -> Response:
    """GET /statistics: show how many events each event type has, their size, and when the newest was received."""
    state = state_of(request)
    measured = await state.ask_event_types()
    if measured is None:
        raise DatabaseUnavailable(reason="the event types could not be measured in time", retry_after=5)

    def show() -> Response:
        seen = keep_seen(request, measured.event_types, lambda each: event_type_named(each.name))
        # One that was deleted since has no lists any more by which its readers are known.
        there = state.hub.admin.permissions.knows
        items = [_describe(each) for each in seen if there(event_type_named(each.name))]
        return json_response({"measured_at": format_time(measured.at), "items": items})

    return await state.run(show)


def _describe(figures: EventTypeFigures) -> Mapping[str, Any]:
    found = figures.measured
    return {
        "name": figures.name,
        "owning_application": figures.owning_application,
        "category": figures.category,
        "partition_count": figures.partition_count,
        "events": found.events,
        "bytes": None if found.size is None else round(found.events * found.size),
        "newest_at": None if found.received_at is None else format_time(found.received_at),
    }
