"""The routes of the outbox: what waits there, and rows that could not be published."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.times import format_time
from penstock.errors import BadParameter
from penstock.hub.admin.rejected import RejectedChoice, RejectedRows
from penstock.server.auth import sender_of
from penstock.server.http.responses import Pairs, json_response, page_links
from penstock.server.state import state_of
from penstock.storage.log.outbox import RejectedRow
from penstock.wire.query import WHOLE_NUMBER_MAX, Query, make_printable

LIMIT: Final = 20
LIMIT_MAX: Final = 1_000
PAGE_BYTES: Final = 8 << 20
"""A page ends once it has so many bytes."""
_READ_ROWS: Final = 10
"""Rows that are read at a time: they may have been rejected for their size."""


async def show_outbox(request: Request) -> Response:
    """GET /outbox: count the rows that wait to be published, and those that could not be."""
    state = state_of(request)

    def show() -> Response:
        database = state.hub.admin.database
        counts, names = database.count_outbox(), database.list_waiting()
        oldest_at = None if counts.since is None else format_time(counts.since)
        return json_response(
            {"waiting": counts.waiting, "oldest_at": oldest_at, "event_types": names, "rejected": counts.rejected}
        )

    return await state.run(show)


async def list_rejected(request: Request) -> Response:
    """GET /outbox/rejected: list rows that could not be published, the newest first, each with the reason."""
    state = state_of(request)
    query = Query(request.scope["query_string"])
    choice = RejectedChoice(_parse_ids(query) or None, _parse_event_type(query))
    limit = query.read_integer("limit", LIMIT, low=1, high=LIMIT_MAX)
    is_oldest = query.read_flag("oldest")
    after = query.read_integer("after", 0, low=1, high=WHOLE_NUMBER_MAX) or None

    def list_page() -> Response:
        rows, more = _find_rows(state.hub.admin.rejected, choice, limit, newest=not is_oldest, after=after)
        asked: list[tuple[str, object]] = [("id", each) for each in choice.ids or ()]
        if choice.event_type is not None:
            asked.append(("event_type", choice.event_type))
        if is_oldest:
            asked.append(("oldest", "true"))
        pages: dict[str, Pairs] = {"next": [*asked, ("after", rows[-1].id), ("limit", limit)]} if more else {}
        links = page_links(request, "/outbox/rejected", pages)
        return json_response({"items": [each._asdict() for each in rows], "_links": links})

    return await state.run(list_page)


async def retry_rejected(request: Request) -> Response:
    """POST /outbox/rejected/retry: put rejected rows back into the outbox, to be published; all, or none."""
    state = state_of(request)
    choice = _parse_choice(Query(request.scope["query_string"]))
    count = await state.run(lambda: state.hub.admin.rejected.retry(choice, sender_of(request)))
    return json_response({"retried": count})


async def delete_rejected(request: Request) -> Response:
    """DELETE /outbox/rejected: delete rejected rows for ever; all that are named, or none."""
    state = state_of(request)
    choice = _parse_choice(Query(request.scope["query_string"]))
    count = await state.run(lambda: state.hub.admin.rejected.delete(choice, sender_of(request)))
    return json_response({"deleted": count})


def _find_rows(
    rejected: RejectedRows, choice: RejectedChoice, limit: int, *, newest: bool, after: int | None
) -> tuple[Sequence[RejectedRow], bool]:
    """Return *limit* rows behind the row *after*, fewer if they are large; and whether more follow."""
    rows: list[RejectedRow] = []
    size = 0
    while True:
        wanted = min(limit - len(rows), _READ_ROWS) + 1
        found = rejected.list(choice, wanted, newest=newest, after=rows[-1].id if rows else after)
        for each in found:
            if len(rows) == limit or size >= PAGE_BYTES:
                return rows, True
            rows.append(each)
            size += sum(len(text) for text in (each.data, each.key, each.headers, each.reason) if text)
        if len(found) < wanted:
            return rows, False


def _parse_choice(query: Query) -> RejectedChoice:
    """Return which rows a change is for.

    Raises:
        BadParameter: it names none, or all and some.
    """
    choice = RejectedChoice(_parse_ids(query) or None, _parse_event_type(query))
    if query.read_flag("all") == (choice != RejectedChoice()):
        raise BadParameter(parameter="id", value=None, allowed="id (repeatable) and event_type, or all=true alone")
    return choice


def _parse_ids(query: Query) -> Sequence[int]:
    ids = []
    for text in query.find_texts("id"):
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise BadParameter(parameter="id", value=make_printable(text), allowed="the number of a row")
        ids.append(int(text))
    return ids


def _parse_event_type(query: Query) -> str | None:
    """Return the event type of the rows, which need not exist, nor have a name that an event type can have."""
    name = query.find_text("event_type")
    if name is not None and not (name and name.isprintable()):
        raise BadParameter(parameter="event_type", value=make_printable(name), allowed="the name of an event type")
    return name
