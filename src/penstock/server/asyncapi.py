"""The route that describes event types in AsyncAPI, as far as the caller may see and use them."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock import __version__
from penstock.core.registry.definition import is_name
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import EventTypeNotFound
from penstock.hub.log.publish import OWN_EVENT_TYPES
from penstock.server.auth import authorize_now, event_type_named, keep_seen, sees
from penstock.server.http.requests import ORIGIN
from penstock.server.http.responses import JsonResponse, link
from penstock.server.log.caching import is_listed
from penstock.server.state import state_of
from penstock.wire.asyncapi import DescribedFeed, HubAddress, describe_event_types
from penstock.wire.query import Query, make_printable

_CACHED: Final = "private, no-cache"
"""A client may keep the document, and asks whether it is still true before each use."""


async def describe(request: Request) -> Response:
    """GET /asyncapi.json: describe event types to programs (AsyncAPI 3.0)."""
    state = state_of(request)
    names = Query(request.scope["query_string"]).find_texts("event_type")
    at = _address_of(request)

    def answer() -> Response:
        feeds = _find_feeds(request, names)
        default = state.hub.admin.settings.current().retention
        described = [
            DescribedFeed(
                feed,
                sees(request, event_type_named(feed.name), "read"),
                feed.name not in OWN_EVENT_TYPES and sees(request, event_type_named(feed.name), "write"),
                feed.event_type.find_retention(default),
            )
            for feed in feeds
        ]
        tag = _make_tag(described, at)
        if is_listed(tag, request.headers.getlist("if-none-match")):
            found: Response = Response(status_code=304)
        else:
            found = JsonResponse(describe_event_types(described, at, __version__))
        found.headers["ETag"] = f"W/{tag}"  # The same document may be compressed, or not.
        found.headers["Cache-Control"] = _CACHED
        return found

    return await state.run(answer)  # Thousands of event types would block the event loop.


def _find_feeds(request: Request, names: Sequence[str]) -> Sequence[StoredFeed]:
    """Return the feeds with these *names*, in the order of their names; without any, all that the caller may see.

    Raises:
        EventTypeNotFound: a name is not that of an event type.
        AccessDenied: the caller may not see one of them.
    """
    registry = state_of(request).hub.registry
    if not names:
        return keep_seen(request, registry.list(), lambda feed: event_type_named(feed.name))
    if unknown := next((each for each in names if not is_name(each)), None):
        raise EventTypeNotFound(event_type=make_printable(unknown))
    feeds = [registry.load(name) for name in sorted(set(names))]
    authorize_now(request, "view", *(event_type_named(feed.name) for feed in feeds))
    return feeds


def _address_of(request: Request) -> HubAddress:
    """Return the address by which the client reached the hub: a trusted proxy names it, else the header `Host`."""
    scope = request.scope
    origin: str = scope.get(ORIGIN) or f"{scope['scheme']}://{request.headers.get('host') or _find_host(request)}"
    protocol, _, host = origin.partition("://")
    authentication = state_of(request).authentication
    return HubAddress(
        protocol, make_printable(host), link(request, ""), authentication.names if authentication is not None else ()
    )


def _find_host(request: Request) -> str:
    """Return the address on which the hub listens, for clients that name none."""
    host, port = request.scope.get("server") or ("localhost", None)
    name = f"[{host}]" if ":" in host else host
    return f"{name}:{port}" if port else name


def _make_tag(described: Sequence[DescribedFeed], at: HubAddress) -> str:
    """Return an entity tag that changes with the document."""
    content = [
        (feed.name, feed.id, feed.epoch, feed.revision, feed.updated_at, reads, writes, retention.limits)
        for feed, reads, writes, retention in described
    ]
    return f'"{blake2b(msgspec.json.encode((__version__, at, content)), digest_size=16).hexdigest()}"'
