"""The route that shows callers their name and permissions, so that an app offers only what the hub allows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.access import HUB, Permission, Resource
from penstock.core.groups.groups import SUBSCRIPTION
from penstock.errors import BadParameter, GroupNotFound
from penstock.hub.groups.groups import Groups
from penstock.hub.log.publish import OWN_EVENT_TYPES
from penstock.server.auth import claim_of, event_type_named, is_administrator, know, sees, sender_of, subscription_with
from penstock.server.groups import sees_group
from penstock.server.http.responses import json_response
from penstock.server.state import state_of
from penstock.wire.query import Query, make_printable

NAMES_MAX: Final = 1_000
"""Maximum number of things about whose rights one request asks."""
EVENT_TYPE_RIGHTS: Final[Sequence[Permission]] = ("view", "read", "write", "own", "admin")
SUBSCRIPTION_RIGHTS: Final[Sequence[Permission]] = ("view", "read", "admin")
GROUP_RIGHTS: Final[Sequence[Permission]] = ("view", "read", "own")
_HUB_RIGHTS: Final[Sequence[Permission]] = ("administer", "monitor", "create")


async def show_caller(request: Request) -> Response:
    """GET /caller: show the caller's name, and its permissions for the hub and for the resources in the query."""
    state = state_of(request)
    query = Query(request.scope["query_string"])
    event_types, subscriptions, groups = (_read_names(query, each) for each in ("event_type", "subscription", "group"))
    if len(event_types) + len(subscriptions) + len(groups) > NAMES_MAX:
        raise BadParameter(
            parameter="query", value=None, allowed=f"at most {NAMES_MAX} of event_type, subscription and group"
        )

    def show() -> Response:
        caller, authentication = sender_of(request).caller, state.authentication
        of_hub: dict[str, bool] = {each: sees(request, HUB, each) for each in _HUB_RIGHTS}
        registry, is_exempt = state.hub.registry, is_administrator(request)
        of_hub["create"] = of_hub["create"] and (registry.has_creation or is_exempt)
        of_hub["delete"] = registry.has_deletion or is_exempt
        shown = {
            "type": caller.data_type,
            "name": caller.value,
            "method": None if authentication is None else authentication.name_method(request.scope),
            "hub": {**of_hub, "issue_tokens": authentication is not None and of_hub["administer"]},
            "event_types": _list_rights(request, map(event_type_named, event_types), EVENT_TYPE_RIGHTS),
            "subscriptions": _list_rights(request, map(subscription_with, subscriptions), SUBSCRIPTION_RIGHTS),
            "groups": {each: _find_group_rights(request, state.hub.groups, each) for each in groups},
        }
        answer = json_response(shown)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    return await state.run(show)


def _read_names(query: Query, parameter: str) -> Sequence[str]:
    names = query.find_texts(parameter)
    for name in names:
        if not name.isprintable():
            raise BadParameter(
                parameter=parameter, value=make_printable(name), allowed="a name of printable characters"
            )
    return names


def _list_rights(
    request: Request, resources: Iterable[Resource], rights: Sequence[Permission]
) -> Mapping[str, Mapping[str, bool]]:
    """Return which *rights* to each resource the sender has: none to one that it may not view, or that is not there."""
    given = list(resources)
    know(request, given)
    return {each.name: _find_rights(request, each, rights) for each in given}


def _find_rights(request: Request, resource: Resource, rights: Sequence[Permission]) -> Mapping[str, bool]:
    is_seen = state_of(request).hub.admin.permissions.knows(resource) and sees(request, resource)
    is_own = resource.kind == "event_type" and resource.name in OWN_EVENT_TYPES  # The hub alone writes these.
    return {each: is_seen and not (is_own and each == "write") and sees(request, resource, each) for each in rights}


def _find_group_rights(request: Request, groups: Groups, name: str) -> Mapping[str, bool]:
    """Return which rights to a consumer group the sender has: to see it, to commit, and to move and delete it."""
    nothing: dict[str, Any] = dict.fromkeys(GROUP_RIGHTS, False)
    try:
        group = groups.find(name)
    except GroupNotFound:
        return nothing
    sources = [event_type_named(each) for each in group.sources]
    know(request, [*sources, subscription_with(name)] if group.kind == SUBSCRIPTION else sources)
    if not sees_group(request, group):
        return nothing
    if group.kind == SUBSCRIPTION:  # It is committed, moved and deleted by its own routes.
        own = subscription_with(name)
        return {"view": True, "read": sees(request, own, "read"), "own": sees(request, own, "admin")}
    claim = claim_of(request, group.sources)
    reads = all(sees(request, each, "read") for each in sources)
    return {
        "view": True,
        "read": reads and (claim is None or claim.holds(group.owner)),
        "own": claim is None or claim.controls(group.owner),
    }
