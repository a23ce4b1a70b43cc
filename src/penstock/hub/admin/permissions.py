"""Permissions: decides who may do what, from memory, by the lists of event types, subscriptions and the hub."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from penstock.core.access import WILDCARD, Attribute, Caller, Permission, Resource, Rights, has_member
from penstock.core.registry.event_type import EventType
from penstock.errors import AccessDenied, Blocked
from penstock.hub.admin.settings import BlockKind, Settings, SettingsSnapshot
from penstock.hub.admin.tokens import Tokens
from penstock.hub.background import Clock
from penstock.storage.admin import DecodedLists
from penstock.storage.store import Store

DefaultAccess = Literal["open", "closed"]
"""The access to an object that has no `authorization`: all callers, or its owner and administrators alone."""


class AccessPolicy(NamedTuple):
    """The rules of a hub that authenticates its callers."""

    administrators: frozenset[Attribute] = frozenset()
    """Administrators of the hub besides those in its settings."""
    default_access: DefaultAccess = "open"


_BLOCKED_BY: Final[dict[str, tuple[BlockKind, BlockKind]]] = {
    "read": ("CONSUMER_APP", "CONSUMER_ET"),
    "write": ("PRODUCER_APP", "PRODUCER_ET"),
}
_OF_ALL: Final[Mapping[str, tuple[str, ...]]] = {
    "view": ("readers", "writers"),
    "read": ("readers",),
    "write": ("writers",),
    "own": ("writers",),
    "monitor": ("readers",),
}
"""The lists in the settings of the hub whose members may do it with every event type and subscription."""


_OF_HUB: Final = frozenset({"administer", "monitor"})
"""Permissions that concern the hub, whatever the path of a request names."""


RESERVED_PREFIX: Final = "nakadi."
"""Names of event types that begin so are reserved: those of the hub's own do."""
ALLOWED_MAX: Final = 100_000
"""Maximum number of cached verdicts."""


_EVERYBODY: Final[Mapping[str, str]] = {"data_type": WILDCARD, "value": WILDCARD}
"""Every caller, as a member of the lists of a definition."""


class _Known(NamedTuple):
    """The rights at one time."""

    revision: str
    event_types: Mapping[str, Rights]
    subscriptions: Mapping[str, Rights]


def is_reserved(resource: Resource) -> bool:
    """Return whether a thing is an event type with a reserved name, which may hold what others may not read.

    Dead letters have events of every event type. Administrators alone may create one, and use one without lists.

    >>> [is_reserved(Resource("event_type", name)) for name in ("nakadi.dead.letter.queue", "order.placed")]
    [True, False]
    """
    return resource.kind == "event_type" and resource.name.startswith(RESERVED_PREFIX)


class _Allowed(NamedTuple):
    """Cache of granted permissions; it is valid as long as the settings and rights that granted them."""

    settings: SettingsSnapshot | None
    known: _Known | None
    asked: set[tuple[Caller, Permission, Resource]]


class Permissions:
    """Decides who may do what; no other place does. Safe to use from many threads.

    Operators block applications and event types on every hub. The lists of the `authorization` of event types and
    subscriptions hold once `enforce` was called, which a hub does that authenticates its callers.

    Every process keeps all rights in memory, and reads them again when the settings say that they have changed: within
    a second, see `Settings`.
    """

    def __init__(
        self, store: Store, settings: Settings, tokens: Tokens, clock: Clock, changed: Callable[[], Any]
    ) -> None:
        """*changed* is called, from any thread, when rights have changed: readers that wait check theirs again."""
        self._store = store
        self._settings = settings
        self._tokens = tokens
        self._clock = clock
        self._changed = changed
        self._policy: AccessPolicy | None = None
        self._known: _Known | None = None
        self._decoded = DecodedLists()
        self._refreshing = threading.Lock()
        self._looked_at = 0
        self._allowed = _Allowed(None, None, set())

    @property
    def is_enforced(self) -> bool:
        """True if callers are authenticated, so that lists apply."""
        return self._policy is not None

    def enforce(self, policy: AccessPolicy) -> None:
        """Have the lists hold, and changes be recorded in the audit log, from here on.

        Raises:
            DatabaseUnavailable: the rights cannot be read.
        """
        self._settings.switch_on_at_first("audit_log_collection")
        self._policy = policy
        self.refresh()

    def refresh(self) -> None:
        """Read the settings, and the rights and tokens if they have changed.

        Raises:
            DatabaseUnavailable: the database cannot be reached; what was read last stays valid.
        """
        self._settings.refresh()
        if self._policy is None:
            return
        with self._refreshing:
            revision, before, now = self._settings.current().access_revision, self._known, self._clock()
            if before is None or before.revision != revision:
                decoded = DecodedLists(self._decoded)
                with self._store.read() as tx:
                    event_types = tx.access.list_rights("event_types", decoded)
                    subscriptions = tx.access.list_rights("subscriptions", decoded)
                    self._tokens.replace_known(tx.access.list_tokens())
                decoded.forget_unused()
                self._decoded = decoded
                self._known = _Known(revision, event_types, subscriptions)
            has_changed = self._known is not before or self._has_expired(now)
            self._looked_at = now
        if has_changed and before is not None:
            self._changed()
        self._tokens.note_uses()

    def _has_expired(self, now: int) -> bool:
        """Return whether a token has expired since rights were last looked at."""
        return any(
            each.expires_at is not None and self._looked_at < each.expires_at <= now for each in self._tokens.known
        )

    def check(self, caller: Caller, permission: Permission, resource: Resource) -> None:
        """Return if *caller* may do *permission* with *resource*, as far as is known here.

        It costs no query and may be called on an event loop. The answer may change while a reader waits: the watch
        wakes readers when settings or rights change, and they have to check again.

        Raises:
            Blocked: an operator has blocked the application or the event type.
            AccessDenied: no list allows it.
            DatabaseUnavailable: see `Settings.current`.
        """
        settings = self._settings.current()
        allowed, asked = self._allowed, (caller, permission, resource)
        if settings is not allowed.settings or self._known is not allowed.known:
            allowed = self._allowed = _Allowed(settings, self._known, set())
        elif asked in allowed.asked:
            return
        blocked = settings.blocked
        if blocked and permission in _BLOCKED_BY:
            by_application, by_event_type = _BLOCKED_BY[permission]
            event_type = resource.name if resource.kind == "event_type" else None
            if (by_application, caller.value) in blocked or (by_event_type, event_type) in blocked:
                raise Blocked(event_type=event_type, application=caller.value)
        if self._policy is not None and not self._allows(caller, permission, resource):
            raise AccessDenied(operation=permission.upper(), resource=str(resource))
        if len(allowed.asked) < ALLOWED_MAX and self.knows(resource):
            allowed.asked.add(asked)

    def knows(self, resource: Resource) -> bool:
        """Return whether the rights to *resource* are in memory, so that `check` decides by them.

        The rights to a resource that does not exist, or that was created a moment ago, are not in memory: `check`
        allows everything with such a resource.
        """
        if self._policy is None:
            return True
        assert self._known is not None
        if resource.kind == "event_type":
            return resource.name in self._known.event_types
        return resource.kind != "subscription" or resource.name in self._known.subscriptions

    def is_public(self, event_type: EventType) -> bool:
        """Return whether everybody may read an event type, so that shared caches may keep its events.

        Everybody may if this hub does not know its callers, or if the event type has everybody on its list of readers.
        """
        lists = event_type.definition.get("authorization") or {}
        return self._policy is None or _EVERYBODY in (lists.get("readers") or ())

    def are_allowed_again(self, caller: Caller, permission: Permission, resources: Sequence[Resource]) -> bool:
        """Return whether `check` has allowed all this by the settings and rights that are known now, and valid."""
        allowed, settings = self._allowed, self._settings
        for resource in resources:
            if (caller, permission, resource) not in allowed.asked:
                return False
        return (
            allowed.settings is settings.snapshot
            and allowed.known is self._known
            and settings.monotonic() <= settings.valid_until
        )

    def may_use_replicas(self, caller: Caller) -> bool:
        """Return whether the reads of *caller* may go to replicas of the database; False if there are none.

        Raises:
            DatabaseUnavailable: the settings could not be read for too long.
        """
        if self._store.replicas is None:
            return False
        readers = self._settings.current().replica_readers
        return readers is None or has_member(readers, caller)

    def is_administrator(self, caller: Caller) -> bool:
        """Return whether *caller* administers the hub."""
        assert self._policy is not None
        listed = self._settings.current().administration["admins"]
        return has_member(self._policy.administrators, caller) or has_member(listed, caller)

    def _allows(self, caller: Caller, permission: Permission, resource: Resource) -> bool:
        policy, known = self._policy, self._known
        assert policy is not None and known is not None
        if permission == "create" or (permission == "view" and resource.kind in ("hub", "group")):
            return True  # Lists show what the caller may see.
        if permission not in _OF_HUB:
            if resource.kind == "event_type":
                rights = known.event_types.get(resource.name)
            else:
                rights = known.subscriptions.get(resource.name) if resource.kind == "subscription" else None
            if rights is None:
                if resource.kind != "hub":
                    return True  # It does not exist, or is a group, which belongs to its owner: see `Groups`.
            elif rights.allow(
                caller, permission, is_open=policy.default_access == "open" and not is_reserved(resource)
            ):
                return True
        if self.is_administrator(caller):
            return True
        if resource.kind == "subscription" and permission == "read":
            return False  # Consuming it takes events from its owner. A reader of everything creates a subscription.
        lists = self._settings.current().administration
        return any(has_member(lists[name], caller) for name in _OF_ALL.get(permission, ()))
