"""Errors of settings, permissions and storages."""

from typing import ClassVar

from penstock.errors.root import Case, Forbidden, Invalid, NotFound, PenstockError, Unavailable


class InvalidSetting(Invalid):
    """The hub cannot have this setting, or this storage: it has one, its own database."""

    code = "invalid-setting"
    message = 'Field "{field}" {reason}'
    cases: ClassVar = {
        "storage-not-found": Case(
            "there is no storage {storage!r}", "The only storage is `default`: name it, or leave the storage out."
        ),
        "storage-fixed": Case(
            "no storage or timeline can be added: {storage!r} is the only storage, with one timeline per event type",
            "Leave out the parameter that chooses a storage.",
        ),
        "storage-in-use": Case(
            "storage {storage!r} stores the events of all event types and cannot be deleted",
            "Delete event types instead.",
        ),
    }

    field: str | None
    """The setting in `invalid-setting`."""
    reason: str | None
    """What is wrong with it."""
    storage: str | None
    """The storage; None in `invalid-setting`."""
    existing: str | None
    """The only storage, in `storage-not-found`."""


class RecordNotFound(NotFound):
    """There is no such token, erasure, or rejected row of the outbox."""

    code = "record-not-found"
    cases: ClassVar = {
        "token-not-found": Case(
            "there is no token {token!r}", "GET /tokens has all, and so has `penstock token list`."
        ),
        "erasure-not-found": Case(
            "{event_type!r} has no erasure {erasure!r}", "An erasure has the id that its request was answered with."
        ),
        "rejected-row-not-found": Case(
            "there is no rejected row of these: {rows}",
            "They were put back or deleted, or never were. GET /outbox/rejected has those that there are, and so has "
            "`penstock rejected list`.",
        ),
    }

    token: str | None
    """The id in `token-not-found`."""
    event_type: str | None
    """The event type in `erasure-not-found`."""
    erasure: str | None
    """The id in `erasure-not-found`."""
    rows: list[int] | None
    """The ids that are missing, in `rejected-row-not-found`."""


class NotOffered(PenstockError):
    """A feature setting of this hub forbids the operation."""

    code = "not-offered"
    message = "this hub does not allow this operation: feature {feature} is on"
    hint = "Ask the operator of the hub to switch the feature off, or use another hub."

    feature: str
    """The setting that forbids it."""


class HubUnavailable(Unavailable):
    """The hub answers, but cannot carry out the request now. Nothing was done."""

    code = "hub-unavailable"
    cases: ClassVar = {
        "hub-stopped": Case(
            "the hub is shutting down", "Repeat the request when the hub runs again, or at another hub."
        ),
        "changes-switched-off": Case(
            "event types and settings cannot be changed now: feature disable_db_write_operations is on",
            "Events can still be published and read. An operator switches it off with POST /settings/features.",
        ),
        "outbox-backlog": Case(
            "the outbox of {event_type!r} has more committed events than could be published within {seconds} s",
            "Repeat the request: each attempt publishes several thousand events. If it still fails, look for the "
            "service that fills the outbox.",
        ),
        "streams-in-the-way": Case(
            "{streams} streams of subscription {subscription} did not end in time; no cursor was reset",
            "Repeat the request. If it still fails, stop the consumers first.",
        ),
        "keys-unavailable": Case(
            "the keys of the issuer of JSON Web Tokens could not be loaded, so the token could not be checked",
            "Repeat the request. If it still fails, the hub's log says why.",
        ),
        "hub-busy": Case(
            "the hub has reached its limit: {limit}={allowed}",
            "Repeat the request after the seconds that Retry-After names, or at another hub.",
        ),
        "deadline-passed": Case(
            "the hub did not start the batch before its deadline", "Send the same batch again, with the same numbers."
        ),
    }

    event_type: str | None
    """The event type in `outbox-backlog`."""
    seconds: float | None
    """The limit in `outbox-backlog`."""
    subscription: str | None
    """The subscription in `streams-in-the-way`."""
    streams: int | None
    """Number of streams in `streams-in-the-way`."""
    limit: str | None
    """The name of the limit in `hub-busy`, such as total-connections."""
    allowed: int | None
    """The value of that limit; of requests and bytes, per second."""


class Blocked(Forbidden):
    """An operator has blocked an event type or an application."""

    code = "blocked"
    message = "Application or event type is blocked"
    hint = "An operator of the hub can unblock it: DELETE /settings/blacklist/..."

    event_type: str
    application: str | None
