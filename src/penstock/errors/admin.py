"""Errors of settings, permissions and storages."""

from penstock.errors.root import Forbidden, Invalid, NotFound, PenstockError, Unavailable


class InvalidSetting(Invalid):
    """A setting of the hub is not what it has to be."""

    code = "invalid-setting"
    message = 'Field "{field}" {reason}'

    field: str
    reason: str


class NotOffered(PenstockError):
    """The hub could do it, but has been told not to."""

    code = "not-offered"
    message = "this hub does not do that: its feature {feature} is switched on"

    feature: str
    """The setting that forbids it."""


class ChangesSwitchedOff(Unavailable):
    """An operator has switched off changes of event types and settings, for a while."""

    code = "changes-switched-off"
    message = "event types and settings cannot be changed now: the feature disable_db_write_operations is on"
    hint = (
        "Events can be published and read meanwhile. Whoever runs the hub can switch it off: POST /settings/features."
    )


class Blocked(Forbidden):
    """An operator has blocked an event type or an application."""

    code = "blocked"
    message = "Application or event type is blocked"
    hint = "Whoever runs the hub can lift it: DELETE /settings/blacklist/..."

    event_type: str
    application: str | None


class StorageNotFound(NotFound):
    """There is no storage of that id."""

    code = "storage-not-found"
    message = "there is no storage {storage!r}; the one there is is {existing!r}"

    storage: str
    existing: str
    """The only storage."""


class StorageFixed(Invalid):
    """Another storage, or another timeline of an event type, was asked for."""

    code = "storage-fixed"
    message = "there is one storage, {storage!r}, and each event type has one timeline in it: none can be added"
    hint = "Events lie in the hub's own database. Leave out what would choose where they lie."

    storage: str
    """The only storage."""


class StorageInUse(Forbidden):
    """The storage holds all events, and cannot be deleted."""

    code = "storage-in-use"
    message = "storage {storage!r} holds the events of all event types"

    storage: str
