"""Errors of authentication and authorization."""

from typing import ClassVar

from penstock.errors.root import Case, Conflict, Forbidden, PenstockError, Unavailable


class Unauthenticated(PenstockError):
    """The request has no valid credential. The answer is the same whatever is wrong with it."""

    code = "unauthenticated"
    message = "this hub needs a valid credential: a token, or another that it accepts"
    hint = (
        "Send the header `Authorization: Bearer TOKEN`. An operator makes tokens with `penstock token create`; "
        "expired and revoked ones are refused."
    )

    reason: str | None
    """What is wrong with it: for the hub's log alone."""
    token: str | None
    """The id of the token, if it was one of the hub's: for the hub's log alone."""


class TooManyRequests(Unavailable):
    """The caller has reached a limit of use, or its address has sent too many invalid credentials. Nothing was done."""

    code = "too-many-requests"
    message = "this caller has reached its limit: {limit}={allowed}"
    hint = (
        "Repeat the request after the seconds that Retry-After names. Operators change limits with "
        "`penstock serve --limit`."
    )
    cases: ClassVar = {
        "too-many-failures": Case(
            "too many invalid credentials have come from this address",
            "Repeat the request after the seconds that Retry-After names, with a valid credential.",
        ),
    }

    limit: str | None
    """The name of the limit in `too-many-requests`: connections, streams, requests, bytes-in, bytes-out
    or bytes-held."""
    allowed: int | None
    """The value of that limit; of requests and bytes, per second."""


class AccessDenied(Forbidden):
    """The caller is authenticated, and may not do this: no list allows it, or the group is not its own."""

    code = "access-denied"
    message = "Access on {operation} {resource} denied"
    hint = (
        "Ask an administrator of the resource to put you on its list, `authorization`, or one of the hub for "
        "`penstock access add`."
    )
    cases: ClassVar = {
        "not-owner": Case(
            "{kind} {name!r} does not belong to this caller",
            "Use a name of your own. Administrators of its event types may move and delete it.",
        ),
        "callers-unknown": Case(
            "this hub does not authenticate its callers, so it hands out no tokens",
            "Run `penstock token create NAME` where the database is, or ask a hub that serves with --auth.",
        ),
    }

    operation: str | None
    """The missing permission, such as READ, in `access-denied`."""
    resource: str | None
    """The thing, such as event-type:order.placed, in `access-denied`."""
    kind: str | None
    """`consumer group` or `producer group`, in `not-owner`."""
    name: str | None
    """The name of the group in `not-owner`."""


class TokenSuperseded(Conflict):
    """The caller has a newer token that is valid longer than one in place of this would be: this one was rotated."""

    code = "token-superseded"
    message = "token {token!r} has a newer one beside it, {newer!r}, which is valid longer than another in its place"
    hint = "Rotate the newer one. Or make one more with `penstock token create`."

    token: str
    newer: str
    """The id of the newer token."""
