"""Decides whether a request may do what it asks for: the only module of the server that asks.

The dispatcher (`app.py`) asks before it calls a handler, by the permission that `routes.py` names for the route and the
path of the request. A handler asks again, here too, about what only a query or a body names, and a reader that waits
has its permission checked while it waits.

Nobody is authenticated yet: every request comes from the same caller, and only the blacklist refuses it.
"""

from typing import Final, Literal, NamedTuple

from starlette.requests import Request

from penstock.hub.admin.settings import UNAUTHENTICATED, Caller, Permission
from penstock.server.state import state_of


class Resource(NamedTuple):
    """The thing that a request reads or changes."""

    kind: Literal["hub", "event_type", "subscription", "group"]
    name: str = ""


HUB: Final = Resource("hub")
"""The hub as a whole."""


def event_type_named(name: str) -> Resource:
    """Return an event type as a resource, whether there is one of that name or not."""
    return Resource("event_type", name)


def resource_of(request: Request) -> Resource:
    """Return the resource that the path of *request* names; the hub if it names none."""
    named = request.path_params
    for kind in ("event_type", "subscription", "group"):
        if kind in named:
            return Resource(kind, named[kind])
    return HUB


def identify(_: Request) -> Caller:
    """Return who sends a request."""
    return UNAUTHENTICATED


def authorize(request: Request, permission: Permission, resource: Resource) -> None:
    """Check that the sender of *request* has *permission* for *resource*.

    It costs no query, and may be called on the event loop as well as in a worker thread. The answer can change while a
    request lasts: the hub's watch then wakes all who wait.

    Raises:
        Blocked: an operator has blocked the application or the event type.
        DatabaseUnavailable: the hub has not been able to read its settings for minutes.
    """
    event_type = resource.name if resource.kind == "event_type" else None
    state_of(request).hub.admin.permissions.check(identify(request), permission, event_type)
