"""Authorizes requests: the only module of the server that checks permissions.

The dispatcher (`app.py`) checks the permission that `routes.py` names for a route before it calls the handler. A
handler checks the resources that only a query or a body names. Requests that last have their permission checked again.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Scope

from penstock.core.access import HUB, UNAUTHENTICATED, Caller, Claim, Permission, Resource, Sender, find_wrong_members
from penstock.core.fields import Violation, raise_violations
from penstock.errors import (
    AccessDenied,
    Blocked,
    Conflict,
    EventTypeNotFound,
    Invalid,
    PenstockError,
    SubscriptionNotFound,
    Unauthenticated,
)
from penstock.hub.admin.permissions import Permissions
from penstock.server.authentication.authentication import CALLER, address_of
from penstock.server.http.requests import CHECK_AGAIN
from penstock.server.limits import CURRENT_USAGE, USAGE, Limiter, RequestUsage
from penstock.server.state import STATE, State, state_of
from penstock.server.telemetry import access_in
from penstock.wire.query import make_printable

Found = TypeVar("Found")


@lru_cache(maxsize=10_000)
def event_type_named(name: str) -> Resource:
    """Return the resource of an event type, which need not exist."""
    return Resource("event_type", name)


def subscription_with(id: str) -> Resource:
    """Return the resource of a subscription, which need not exist."""
    return Resource("subscription", id)


def resource_of(request: Request) -> Resource:
    """Return the resource that the path of *request* names; the hub if it names none."""
    named = request.path_params
    for kind in ("event_type", "subscription", "group"):
        if kind in named:
            return Resource(kind, named[kind])
    return HUB


async def admit(scope: Scope, permission: Permission, *resources: Resource, may_be_missing: bool = False) -> None:
    """Authenticate a request, check the limits of its sender, and check *permission* for all *resources*.

    Rights are read from the database again before a request is refused; all that wait share a read. Resources that do
    not exist have no rights: unless they *may be missing*, the request is refused here, since a handler would find one
    that is created a moment later, and ask nobody.

    Raises:
        Unauthenticated, TooManyRequests: see `Authentication.authenticate`.
        TooManyRequests, HubUnavailable: a limit of use is reached.
        Blocked: an operator has blocked the application or an event type.
        AccessDenied: no list allows it.
        EventTypeNotFound, SubscriptionNotFound: a resource does not exist, and callers are authenticated.
        DatabaseUnavailable: the hub has not been able to read its settings for minutes.
    """
    state: State = scope[STATE]
    permissions = state.hub.admin.permissions
    caller: Caller | None = scope.get(CALLER)
    if caller is None:
        caller = UNAUTHENTICATED
        if state.authentication is not None:
            found = state.authentication.authenticate(scope)
            caller = found if isinstance(found, Caller) else await _wait_for(state, found, scope)
            _note_caller(scope, caller, permission, resources, may_be_missing=may_be_missing)
    if state.limiter.has_rates:
        CURRENT_USAGE.set(_begin_usage(state.limiter, scope, caller))
    if permissions.are_allowed_again(caller, permission, resources):
        return
    with suppress(AccessDenied):
        if all(map(permissions.knows, resources)):
            for resource in resources:
                permissions.check(caller, permission, resource)
            return
    await state.rights.wait()
    for resource in resources:
        permissions.check(caller, permission, resource)
        if not may_be_missing:
            _require(permissions, resource)


def admit_at_once(scope: Scope, permission: Permission, *resources: Resource) -> bool:
    """Do as `admit`, if nothing has to be waited for and nothing is refused; otherwise return False, and call `admit`.

    A credential that has to be looked up has to be waited for. The limits of the sender have counted the request then,
    and `admit` does not count it again.
    """
    state: State = scope[STATE]
    caller = UNAUTHENTICATED
    if state.authentication is not None:
        try:
            caller = state.authentication.identify_again(scope)
        except Unauthenticated:
            return False
        scope[CALLER] = caller
        _note_caller(scope, caller, permission, resources)
    if state.limiter.has_rates:
        try:
            _begin_usage(state.limiter, scope, caller)
        except PenstockError:
            return False
    return state.hub.admin.permissions.are_allowed_again(caller, permission, resources)


def _note_caller(
    scope: Scope,
    caller: Caller,
    permission: Permission,
    resources: Sequence[Resource],
    *,
    may_be_missing: bool = False,
) -> None:
    scope[CHECK_AGAIN] = partial(_check, permission, resources, may_be_missing=may_be_missing)
    access_in(scope).caller = caller


def _begin_usage(limiter: Limiter, scope: Scope, caller: Caller) -> RequestUsage:
    """Count a request once; raise as `Limiter.begin` does."""
    usage: RequestUsage | None = scope.get(USAGE)
    if usage is None:
        usage = scope[USAGE] = limiter.begin(address_of(scope) if caller is UNAUTHENTICATED else caller)
    return usage


def _require(permissions: Permissions, resource: Resource) -> None:
    """Raise EventTypeNotFound or SubscriptionNotFound if the cached rights say that there is no such resource."""
    if permissions.knows(resource):
        return
    name = make_printable(resource.name)
    if resource.kind == "subscription":
        raise SubscriptionNotFound(subscription=name)
    raise EventTypeNotFound(event_type=name)


async def _wait_for(state: State, found: Coroutine[None, None, Caller], scope: Scope) -> Caller:
    """Return the sender of a request; count a request with an invalid credential toward the limits of its address."""
    try:
        return await found
    except Unauthenticated:
        if state.limiter.has_rates:
            state.limiter.begin(address_of(scope))
        raise


def _user_of(scope: Scope) -> Caller | str:
    """Return the user whose limits apply to a request: its caller, or its address if callers are not authenticated."""
    caller: Caller | None = scope.get(CALLER)
    return address_of(scope) if caller is None else caller


def count_stream(request: Request) -> None:
    """Count an admitted *request* as a stream until it ends; repeated calls count once.

    Handlers that stream events, or wait for them, call it first.

    Raises:
        TooManyRequests, HubUnavailable: the limit of streams is reached.
    """
    scope = request.scope
    usage: RequestUsage | None = scope.get(USAGE)
    if usage is None:
        usage = scope[USAGE] = state_of(request).limiter.find(_user_of(scope))
    usage.open_stream()


def authorize(request: Request, permission: Permission, *resources: Resource) -> None:
    """Check by the cached rights that the sender of an admitted *request* has *permission* for all *resources*.

    It runs no query, so it may be called on the event loop. Rights can change while a request lasts: the hub's watch
    wakes waiting requests then, and they call this again.

    Raises:
        Unauthenticated: the credential is no longer valid.
        Blocked: an operator has blocked the application or an event type.
        AccessDenied: no list allows it.
        DatabaseUnavailable: the hub has not been able to read its settings for minutes.
    """
    _check(permission, resources, request.scope)


def _check(permission: Permission, resources: Iterable[Resource], scope: Scope, *, may_be_missing: bool = True) -> None:
    state: State = scope[STATE]
    permissions = state.hub.admin.permissions
    caller = UNAUTHENTICATED if state.authentication is None else state.authentication.identify_again(scope)
    for resource in resources:
        permissions.check(caller, permission, resource)
        if not may_be_missing:
            _require(permissions, resource)


def authorize_now(request: Request, permission: Permission, *resources: Resource) -> None:
    """Do as `authorize`, but read rights from the database before refusing; call it in a worker thread."""
    permissions = state_of(request).hub.admin.permissions
    if not all(map(permissions.knows, resources)):
        permissions.refresh()
    try:
        authorize(request, permission, *resources)
    except AccessDenied:
        permissions.refresh()
        authorize(request, permission, *resources)


def is_administrator(request: Request) -> bool:
    """Return whether the sender of an admitted *request* administers the hub; call it in a worker thread.

    Nobody does where callers are not authenticated.
    """
    if state_of(request).authentication is None:
        return False
    try:
        authorize_now(request, "administer", HUB)
    except AccessDenied:
        return False
    return True


def check_authorization(request: Request, definition: Any, before: Any, kind: type[Invalid]) -> None:
    """Check the `authorization` of a *definition* as `check_lists` does, unless it was so *before*."""
    lists = definition.get("authorization") if isinstance(definition, dict) else None
    if lists != before:
        check_lists(request, lists, kind, "authorization.")


def check_lists(request: Request, lists: Any, kind: type[Invalid], prefix: str = "") -> None:
    """Check that each member of *lists* stands for a caller that this hub can know.

    Where callers are not authenticated, lists have no effect and are not checked. Errors name fields with the *prefix*.

    Raises:
        Invalid: there is no list of such a name, or a member stands for nobody; the error is of class *kind*.
    """
    if state_of(request).authentication is not None and isinstance(lists, dict):
        wrong = [Violation(prefix + field, reason) for field, reason in find_wrong_members(lists)]
        raise_violations(wrong, kind)


def sender_of(request: Request) -> Sender:
    """Return the caller and address of an admitted *request*; UNAUTHENTICATED if the hub does not authenticate."""
    return Sender(request.scope.get(CALLER, UNAUTHENTICATED), address_of(request.scope))


def uses_replicas(scope: Scope) -> bool:
    """Return whether events for the caller of an admitted request may come from replicas; False if there are none."""
    state: State = scope[STATE]
    return state.hub.admin.permissions.may_use_replicas(scope.get(CALLER, UNAUTHENTICATED))


def publisher_of(scope: Scope) -> str:
    """Return the name of the caller of an admitted publish, for the metadata of its events."""
    caller: Caller = scope.get(CALLER, UNAUTHENTICATED)
    return caller.value


def note_publisher(scope: Scope, event_type: str) -> None:
    """Record that the authenticated caller of an admitted request, if there is one, has published to *event_type*."""
    caller: Caller | None = scope.get(CALLER)
    if caller is not None:
        state: State = scope[STATE]
        state.hub.admin.publishers.note(event_type, caller)


def claim_of(request: Request, event_types: Iterable[str] = (), *, overrides: bool = True) -> Claim | None:
    """Return the claim of an admitted *request* to a group that belongs to its first user; None without authentication.

    With *overrides*, administrators of all its *event_types*, and of the hub, may use a group of another owner.
    Dropped event types, and those without cached rights (see `know`), have no administrators.
    """
    state = state_of(request)
    if state.authentication is None:
        return None
    permissions = state.hub.admin.permissions
    caller: Caller = request.scope[CALLER]
    if not overrides:
        return Claim(caller)
    resources = [event_type_named(each) for each in event_types]
    try:
        for resource in resources:
            permissions.check(caller, "admin", resource)
    except AccessDenied:
        return Claim(caller)
    administers = bool(resources) and all(map(permissions.knows, resources))
    return Claim(caller, overrides=administers or permissions.is_administrator(caller))


def with_claim(request: Request, event_types: Iterable[str], act: Callable[[Claim | None], Found]) -> Found:
    """Return what *act* does with the claim of an admitted *request*: see `claim_of`. Call it in a worker thread.

    If *act* refuses, rights are read from the database, and it is called once more.
    """
    names = sorted(event_types)
    try:
        return act(claim_of(request, names))
    except AccessDenied:
        state_of(request).hub.admin.permissions.refresh()
        return act(claim_of(request, names))


def check_producer(request: Request, event_type: str, group: str, *, asks: bool = True) -> None:
    """Check that the sender of an admitted *request* may use a producer group; its first user becomes its owner.

    With *asks*, it queries the database if the owner is not cached: call it in a worker thread then.

    Raises:
        AccessDenied: the group belongs to another caller, and the sender is no administrator of the event type.
        Conflict: the owner is not cached, and *asks* is false.
    """
    state = state_of(request)
    if state.authentication is None:
        return
    owners = state.hub.producers.owners
    if owners.is_known(event_type, group, sender_of(request)):
        return
    if not asks:
        raise Conflict("the owner of the producer group is not known yet")

    def check(claim: Claim | None) -> None:
        assert claim is not None
        owners.check(event_type, group, claim)

    with_claim(request, [event_type], check)


def check_producer_owner(request: Request, event_type: str, group: str) -> None:
    """Check that the sender of an admitted *request* owns a producer group; call it in a worker thread.

    Administrators of the event type may do what the owner may.

    Raises:
        AccessDenied: the group belongs to another caller or to nobody, and the sender is no administrator.
    """
    if state_of(request).hub.producers.owners.find(event_type, group) != sender_of(request).owner:
        authorize_now(request, "admin", event_type_named(event_type))


def keep_seen(request: Request, found: Iterable[Found], resource_of: Callable[[Found], Resource]) -> list[Found]:
    """Return those of *found* that the sender of an admitted *request* may see; call it in a worker thread.

    Rights are read again first if another hub has just created one of the resources.
    """
    pairs = [(each, resource_of(each)) for each in found]
    know(request, [resource for _, resource in pairs])
    return [each for each, resource in pairs if sees(request, resource)]


def know(request: Request, resources: Iterable[Resource]) -> None:
    """Read rights from the database if those to some *resources* are not cached; call it in a worker thread."""
    permissions = state_of(request).hub.admin.permissions
    if not all(map(permissions.knows, resources)):
        permissions.refresh()


def sees(request: Request, resource: Resource, permission: Permission = "view") -> bool:
    """Return whether the cached rights let the sender of an admitted *request* see *resource*, or have *permission*."""
    state = state_of(request)
    try:
        state.hub.admin.permissions.check(request.scope.get(CALLER, UNAUTHENTICATED), permission, resource)
    except (AccessDenied, Blocked):
        return False
    return True
