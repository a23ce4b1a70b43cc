"""Errors of event types and their schemas."""

from typing import Any, ClassVar

from penstock.errors.root import Case, Conflict, Invalid, NotFound


class EventTypeNotFound(NotFound):
    """There is no event type of this name."""

    code = "event-type-not-found"
    message = "there is no event type {event_type!r}"
    hint = "Create it with `penstock event-type create NAME` or POST /event-types."

    event_type: str


class EventTypeExists(Conflict):
    """An event type of this name exists already."""

    code = "event-type-exists"
    message = "event type {event_type!r} exists already"
    hint = "Use the existing event type, or choose another name."

    event_type: str


class EventTypeInUse(Conflict):
    """An event type cannot be deleted while subscriptions read it."""

    code = "event-type-in-use"
    message = "event type {event_type!r} is read by subscriptions: {subscriptions}"
    hint = "Delete these subscriptions first."

    event_type: str
    subscriptions: list[str]
    """Names of the subscriptions."""


class SchemaVersionNotFound(NotFound):
    """The event type has no such version of its schema."""

    code = "schema-version-not-found"
    message = "event type {event_type!r} has no schema version {version}"
    hint = "GET /event-types/{event_type}/schemas lists the versions."

    event_type: str
    version: str | None
    """None if the request looked for a version by its schema."""


class InvalidEventType(Invalid):
    """The definition of an event type is malformed or breaks a rule."""

    code = "invalid-event-type"
    message = 'Field "{field}" {reason}'
    cases: ClassVar = {
        "malformed-event-type": Case('Field "{field}" {reason}'),
        "guidelines-broken": Case(
            "event type {event_type!r} breaks the event guidelines: {broken}",
            "Follow these guidelines, or waive each with a reason: `penstock event-type check` explains how.",
        ),
    }

    field: str | None
    """The first invalid field; None if no single field is wrong."""
    reason: str | None
    """What is wrong; None in `guidelines-broken`."""
    violations: list[dict[str, str]] | None
    """All invalid fields with their reasons, if more than one was checked."""
    producers: bool | None
    """Whether all producers can keep the old schema; None unless the schema changes."""
    consumers: bool | None
    """Whether all consumers can keep the old schema; None unless the schema changes."""
    changes: list[dict[str, Any]] | None
    """As in `IncompatibleSchema`."""
    event_type: str | None
    """The event type in `guidelines-broken`: this hub enforces guidelines of level MUST."""
    broken: list[str] | None
    """The broken guidelines, each with the reason, in `guidelines-broken`."""


class IncompatibleSchema(Invalid):
    """The compatibility mode of an event type refuses a change of its schema."""

    code = "incompatible-schema"
    message = "Invalid schema: {event_type!r} cannot be changed this way"
    hint = (
        "Each of `changes` says what to do instead. For any other change, create another event type, or change "
        "`compatibility_mode` first and the schema in a second request."
    )

    event_type: str
    mode: str
    """The compatibility mode."""
    evolution: str | None
    """The value of the option `evolution`."""
    producers: bool
    """Whether all producers can keep the old schema."""
    consumers: bool
    """Whether all consumers can keep the old schema."""
    changes: list[dict[str, Any]]
    """The refused changes: where each one is, what is wrong with it, and what to do instead."""
