"""Errors of event types and their schemas."""

from typing import Any

from penstock.errors.root import Conflict, Invalid, NotFound


class EventTypeNotFound(NotFound):
    """There is no event type of that name."""

    code = "event-type-not-found"
    message = "there is no event type {event_type!r}"
    hint = "Create it with `penstock event-type create NAME` or POST /event-types."

    event_type: str


class EventTypeExists(Conflict):
    """An event type of that name exists."""

    code = "event-type-exists"
    message = "there is an event type {event_type!r} already"

    event_type: str


class EventTypeInUse(Conflict):
    """An event type cannot be deleted while subscriptions read it."""

    code = "event-type-in-use"
    message = "{event_type!r} is read by subscriptions: {subscriptions}"
    hint = "Delete them first."

    event_type: str
    subscriptions: list[str]
    """Names of the subscriptions."""


class SchemaVersionNotFound(NotFound):
    """The event type has no such version of its schema."""

    code = "schema-version-not-found"
    message = "{event_type!r} has no schema version {version}"
    hint = "GET /event-types/{event_type}/schemas lists those that there are."

    event_type: str
    version: str | None
    """None if no version equals the given schema."""


class InvalidEventType(Invalid):
    """An event type's definition breaks a rule."""

    code = "invalid-event-type"
    message = 'Field "{field}" {reason}'

    field: str
    reason: str
    violations: list[dict[str, str]] | None
    """All invalid fields with their reasons, if more than one was checked."""
    producers: bool | None
    """Whether all producers can keep the old schema; None unless the schema changes."""
    consumers: bool | None
    changes: list[dict[str, Any]] | None
    """As in `IncompatibleSchema`."""


class MalformedEventType(InvalidEventType):
    """A member of a definition is of the wrong type, or none of the values that it can have."""

    code = "malformed-event-type"


class GuidelinesBroken(Invalid):
    """A definition breaks guidelines of the level MUST, which this hub refuses."""

    code = "guidelines-broken"
    message = "{event_type!r} does not keep the event guidelines: {broken}"
    hint = "Keep them, or waive each with a reason: `penstock event-type check` says how."

    event_type: str
    broken: list[str]
    """The guidelines, each with its reason."""


class IncompatibleSchema(Invalid):
    """A change of an event type's schema that its compatibility mode refuses."""

    code = "incompatible-schema"
    message = "Invalid schema: {event_type!r} cannot be changed so"
    hint = (
        "Each of `changes` says what to do instead; what else is needed takes another event type, or another "
        "`compatibility_mode`: change that first, by itself, and the schema then."
    )

    event_type: str
    mode: str
    """The compatibility mode."""
    evolution: str | None
    """The option of that name."""
    producers: bool
    """Whether all producers can keep the old schema."""
    consumers: bool
    """Whether all consumers can keep the old schema."""
    changes: list[dict[str, Any]]
