"""Records changes that callers make, as events of the hub's own event types, in the transaction of the change.

`nakadi.audit.log` has all changes: who made them, from where, before and after. `nakadi.event.type.log` and
`nakadi.subscription.log` have those of event types and subscriptions in brief.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from penstock.core.access import THE_HUB, Sender
from penstock.core.events.event import EVENT_BYTES_MAX
from penstock.errors import Invalid, TooLarge
from penstock.hub.log.publish import OWN_EVENT_TYPES
from penstock.hub.own_events import (
    AUDIT_FEATURE,
    AUDIT_LOG,
    EVENT_TYPE_LOG,
    KPI_FEATURE,
    SUBSCRIPTION_LOG,
    Event,
    OwnEventType,
    append_own,
    find_features,
    hash_name,
    lock_own,
)
from penstock.storage.admin import Setting
from penstock.storage.store import Tx

ResourceType = Literal[
    "admins", "batches", "blacklist_entry", "cursors", "database", "erasure", "event_type", "feature", "group",
    "parked_key", "producer", "rejected_rows", "replicas", "retention", "subscription", "token",
]  # fmt: skip
Action = Literal["created", "updated", "deleted"]

AUDIT_BYTES_MAX: Final = EVENT_BYTES_MAX - 1_000
"""An event of the audit log has no more bytes before its metadata is complete."""


class AuditedChange(NamedTuple):
    """A change that a caller makes."""

    resource_type: ResourceType
    resource_id: str
    before: Mapping[str, Any] | None
    """The thing before; None: it is created."""
    after: Mapping[str, Any] | None
    """The thing afterwards; None: it is deleted."""
    reason: str | None = None
    """Why, if the caller has said it."""

    @property
    def action(self) -> Action:
        """The kind of change."""
        if self.before is None:
            return "created"
        return "deleted" if self.after is None else "updated"

    def abridge(self) -> "AuditedChange":
        """Return the change reduced to the identity of its resource, so that it fits into an event."""
        return self._replace(before=_abridge(self.before), after=_abridge(self.after))


def record_change(tx: Tx, change: AuditedChange, by: Sender | None, now: int) -> None:
    """Publish what *change* is in the transaction of the caller, if a feature that is on says so.

    The change is that of the sender *by*; None: the hub itself makes it. A transaction calls it after it has taken all
    other locks, and before `note_access_change`.

    Raises:
        DatabaseUnavailable: an event type of the hub's own was deleted meanwhile.
    """
    record_changes(tx, [change], by, now)


def record_changes(
    tx: Tx, changes: Sequence[AuditedChange], by: Sender | None, now: int, *, features: Collection[str] | None = None
) -> None:
    """Publish what several changes of one transaction are: see `record_change`.

    *features* are those that are on; None: the database says so.
    """
    on = find_features(tx.settings.list()) if features is None else features
    found = [each for feature in sorted(on) for each in _PUBLISHED_FOR.get(feature, ())]
    chosen = {which: [each for each in changes if which.takes(each)] for which in found}
    locked = {
        which: lock_own(tx, which.event_type, now)
        for which in sorted(found, key=lambda which: which.event_type.name)
        if chosen[which]
    }
    if any(is_new for _, is_new in locked.values()):
        tx.settings.note_access_change()
    for which, (feed, _) in locked.items():
        try:
            append_own(tx, feed, [which.make(each, by) for each in chosen[which]], now)
        except (Invalid, TooLarge):  # Such as one that is nested too deeply.
            append_own(tx, feed, [which.make(each.abridge(), by) for each in chosen[which]], now)


def lock_audit_log(tx: Tx, now: int) -> Sequence[Setting]:
    """Return all settings, and if changes are recorded, let other transactions record theirs after this one."""
    settings = tx.settings.list()
    if AUDIT_FEATURE not in find_features(settings):
        return settings
    lock_own(tx, AUDIT_LOG, now)
    return tx.settings.list()


def lock_logs_before(tx: Tx, event_type: str, now: int) -> None:
    """Lock the logs that a change of *event_type* is recorded in, as far as they are locked before it.

    That concerns changes of the hub's own event types, which are locked by name.
    """
    if event_type not in OWN_EVENT_TYPES:
        return
    on = find_features(tx.settings.list())
    for feature, which in ((AUDIT_FEATURE, AUDIT_LOG), (KPI_FEATURE, EVENT_TYPE_LOG)):
        if feature in on and which.name < event_type:
            lock_own(tx, which, now)


def _make_audit_event(change: AuditedChange, by: Sender | None) -> Event:
    caller, address = by if by is not None else Sender(THE_HUB, "")
    event: dict[str, Any] = {
        "resource_type": change.resource_type,
        "resource_id": change.resource_id,
        "action": change.action,
        "user": caller.value,
        "user_type": caller.data_type,
        "user_hash": hash_name(caller.value),
        "address": address,
    }
    if change.reason is not None:
        event["reason"] = change.reason
    for given in (change, change.abridge()):
        sides = {name: side for name, side in (("previous", given.before), ("new", given.after)) if side is not None}
        objects = {f"{name}_object": side for name, side in sides.items()}
        texts = {f"{name}_text": msgspec.json.encode(side).decode() for name, side in sides.items()}
        for made in (event | objects | texts, event | objects):
            if len(msgspec.json.encode(made)) <= AUDIT_BYTES_MAX:
                return made
    raise AssertionError("an event without its objects is small")


def _abridge(side: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if side is None:
        return None
    text = msgspec.json.encode(side)
    return {"too_large": True, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}


def _make_event_type_event(change: AuditedChange, _: Sender | None) -> Event:
    definition = change.after or change.before
    assert definition is not None
    return {
        "event_type": change.resource_id,
        "status": change.action,
        "category": definition["category"],
        "authz": "disabled" if definition["authorization"] is None else "enabled",
        "compatibility_mode": definition["compatibility_mode"],
    }


def _make_subscription_event(change: AuditedChange, _: Sender | None) -> Event:
    return {"subscription_id": change.resource_id, "status": change.action}


class _Log(NamedTuple):
    """An event type of changes."""

    event_type: OwnEventType
    make: Callable[[AuditedChange, Sender | None], Event]
    only: ResourceType | None = None
    """The type of the resources whose changes it has; None: all."""

    def takes(self, change: AuditedChange) -> bool:
        return self.only in (None, change.resource_type)


_PUBLISHED_FOR: Final[Mapping[str, tuple[_Log, ...]]] = {
    AUDIT_FEATURE: (_Log(AUDIT_LOG, _make_audit_event),),
    KPI_FEATURE: (
        _Log(EVENT_TYPE_LOG, _make_event_type_event, "event_type"),
        _Log(SUBSCRIPTION_LOG, _make_subscription_event, "subscription"),
    ),
}
"""The logs of changes that each feature switches on."""
