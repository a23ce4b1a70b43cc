"""The settings of operators: administrators, blocked applications and event types, features.

Every hub process keeps all settings in memory, so that no request costs a query for them. A change holds at once in
the process that makes it, and in others within `watch.REFRESH_INTERVAL` and two polls.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from penstock.core.access import LISTS, Attribute, Sender
from penstock.core.events.encoding import describe_mismatch
from penstock.core.registry.definition import LIMIT_MAX
from penstock.core.registry.retention import RetentionLimits
from penstock.errors import (
    BadParameter,
    DatabaseUnavailable,
    HubUnavailable,
    InvalidSetting,
    OutcomeUnknown,
)
from penstock.hub.background import Clock, system_clock
from penstock.hub.changes import AuditedChange, ResourceType, lock_audit_log, record_changes
from penstock.hub.own_events import AUDIT_FEATURE, create_logs, find_features
from penstock.storage.admin import ACCESS, FEATURE, ON, Setting
from penstock.storage.store import Store, Tx

BlockKind = Literal["CONSUMER_APP", "CONSUMER_ET", "PRODUCER_APP", "PRODUCER_ET"]
"""The kinds of blocks: an application or an event type, as consumer or as producer, in Nakadi's spelling."""
Feature = Literal[
    "access_log_enabled",
    "audit_log_collection",
    "delete_event_type_with_subscriptions",
    "disable_db_write_operations",
    "disable_event_type_creation",
    "disable_event_type_deletion",
    "disable_subscription_creation",
    "kpi_collection",
    "return_body_on_create_update_event_type",
]
"""The features of Nakadi (section 7 of its manual) that have a meaning here."""

BLOCK_KINDS: Final[tuple[str, ...]] = get_args(BlockKind)
FEATURES: Final[tuple[str, ...]] = get_args(Feature)
NAME_CHARS_MAX: Final = 255
REFRESH_INTERVAL: Final = 0.5
"""A hub that was not started refreshes its settings after this long."""
KEPT_SECONDS_MAX: Final = 300.0
"""Settings stay valid this long while the database is unavailable."""
_ADMINISTRATION: Final = "administration"
_OFF: Final = "off"
_RETENTION: Final = "retention"
_REPLICAS: Final = "replicas"


Administration = Mapping[str, tuple[Attribute, ...]]
"""By list of `LISTS`: its members."""


class SettingsSnapshot(NamedTuple):
    """All settings at one time."""

    administration: Administration
    blocked: frozenset[tuple[str, str]]
    """The blocks, by kind and name."""
    features: frozenset[str]
    """The features that are on."""
    access_revision: str
    """A text that every change of rights and tokens replaces."""
    retention: RetentionLimits = RetentionLimits()
    """The retention of event types that set none."""
    replica_readers: tuple[Attribute, ...] | None = None
    """The callers whose reads may go to replicas of the database; None: all callers."""

    @classmethod
    def of(cls, settings: Sequence[Setting]) -> "SettingsSnapshot":
        """Decode stored settings; skip those of other versions."""
        lists = {each.name: each.value for each in settings if each.kind == _ADMINISTRATION}
        decode = msgspec.json.Decoder(tuple[Attribute, ...]).decode
        return cls(
            administration={name: decode(lists[name]) if name in lists else () for name in LISTS},
            blocked=frozenset((each.kind, each.name) for each in settings if each.kind in BLOCK_KINDS),
            features=find_features(settings) & frozenset(FEATURES),
            access_revision=next((each.value for each in settings if each.kind == ACCESS), ""),
            retention=RetentionLimits.parse(
                {each.name: int(each.value) for each in settings if each.kind == _RETENTION}
            ),
            replica_readers=next((decode(each.value) for each in settings if each.kind == _REPLICAS), None),
        )


class Settings:
    """The settings of one store. Safe to use from many threads.

    A hub that is not started refreshes them when they are used; after `start` the watch calls `refresh`.
    """

    def __init__(
        self,
        store: Store,
        changed: Callable[[], Any],
        monotonic: Callable[[], float] = time.monotonic,
        clock: Clock = system_clock,
    ) -> None:
        """*changed* is called, from any thread, when a refresh has found changes."""
        self._store = store
        self._changed = changed
        self.monotonic = monotonic
        """The clock of `valid_until`."""
        self._clock = clock
        self._refreshing = threading.Lock()
        self.snapshot: SettingsSnapshot | None = None
        """The settings that were read last; None before the first time."""
        self.valid_until = float("-inf")
        """Until then `current` returns *snapshot*, and does nothing else."""
        self._refreshed_at = self._seen_at = float("-inf")
        self._started = False

    def start(self) -> None:
        """Read the settings, and from here on only when `refresh` is called; harmless when repeated.

        Raises:
            DatabaseUnavailable: the database cannot be reached.
        """
        self.refresh()
        self._started = True
        self.valid_until = self._seen_at + KEPT_SECONDS_MAX

    def refresh(self) -> None:
        """Read the settings, and call *changed* if another process has changed them.

        Raises:
            DatabaseUnavailable: the database cannot be reached; the last settings stay valid.
        """
        with self._refreshing:  # One at a time, so that an older snapshot never replaces a newer one.
            self._refreshed_at = self.monotonic()
            with self._store.read() as tx:
                found = SettingsSnapshot.of(tx.settings.list())
            before = self.snapshot
            if before != found:
                self.snapshot = found
            self._seen_at = self.monotonic()
            self.valid_until = (
                self._seen_at + KEPT_SECONDS_MAX if self._started else self._refreshed_at + REFRESH_INTERVAL
            )
        if before is not None and before != found:
            self._changed()

    def current(self) -> SettingsSnapshot:
        """Return all settings; read them first in a hub that was not started.

        Raises:
            DatabaseUnavailable: they could not be read for longer than `KEPT_SECONDS_MAX`, or never.
        """
        now = self.monotonic()
        if self.snapshot is None or (not self._started and now - self._refreshed_at > REFRESH_INTERVAL):
            try:
                self.refresh()
            except DatabaseUnavailable:
                if now - self._seen_at > KEPT_SECONDS_MAX:
                    raise
        if now - self._seen_at > KEPT_SECONDS_MAX:
            reason = f"the hub's settings could not be read for {KEPT_SECONDS_MAX:g} s"
            raise DatabaseUnavailable(reason=reason, retry_after=1)
        assert self.snapshot is not None
        return self.snapshot

    def is_on(self, feature: Feature) -> bool:
        """Return whether *feature* is on: see `current`."""
        return feature in self.current().features

    def check_changes(self) -> None:
        """Raise HubUnavailable if an operator has switched off changes to event types and settings."""
        if self.is_on("disable_db_write_operations"):
            raise HubUnavailable.of("changes-switched-off", retry_after=30)

    def block(self, kind: str, name: str, by: Sender | None = None) -> None:
        """Block an application or an event type, which need not exist; harmless when repeated.

        Raises:
            BadParameter: the kind or the name is not allowed.
            HubUnavailable: see `check_changes`.
            DatabaseUnavailable: it may have been done all the same.
        """
        _check_block(kind, name)
        self.check_changes()
        self._change([(kind, name, ON)], _make_block(kind, name), by)

    def unblock(self, kind: str, name: str, by: Sender | None = None) -> None:
        """Remove a block, if there is one; raise the same errors as `block`."""
        _check_block(kind, name)
        self.check_changes()
        self._change([(kind, name, None)], _make_block(kind, name), by)

    def replace_administrators(self, lists: Any, by: Sender | None = None) -> None:
        """Replace the lists of administrators by *lists*, in the JSON shape of the wire.

        Raises:
            InvalidSetting: a list is missing or empty, or a member is malformed.
            HubUnavailable: see `check_changes`.
            DatabaseUnavailable: it may have been done all the same.
        """
        given = _parse_lists(lists)
        self.check_changes()
        self._change([_put_list(name, given[name]) for name in LISTS], _ADMINISTRATORS, by)

    def add_member(self, name: str, member: Attribute, by: Sender | None = None) -> bool:
        """Put a caller on the list *name* of the hub, one of `LISTS`; return whether it was not there.

        Raises:
            DatabaseUnavailable: it may have been done all the same.
        """
        return self._change_list(name, lambda listed: dict.fromkeys([*listed, member]), by)

    def remove_member(self, name: str, member: Attribute, by: Sender | None = None) -> bool:
        """Take a caller off the list *name* of the hub, also the last one; return whether it was there.

        Raises:
            DatabaseUnavailable: it may have been done all the same.
        """
        return self._change_list(name, lambda listed: (each for each in listed if each != member), by)

    def list_memberships(self, caller: Attribute) -> Sequence[str]:
        """Return the names of the lists of the hub that *caller* is on by its own name."""
        with self._store.read() as tx:
            lists = SettingsSnapshot.of(tx.settings.list()).administration
        return [name for name, members in lists.items() if caller in members]

    def _change_list(
        self, name: str, change: Callable[[Sequence[Attribute]], Iterable[Attribute]], by: Sender | None
    ) -> bool:
        with self._store.write() as tx:
            before = SettingsSnapshot.of(tx.settings.list()).administration[name]
            after = tuple(change(before))
            self._put(tx, [_put_list(name, after)], _ADMINISTRATORS, by)
        self.refresh()
        return before != after

    def switch(self, feature: str, *, on: bool, by: Sender | None = None) -> None:
        """Switch a feature on or off; harmless when repeated.

        Raises:
            BadParameter: there is no such feature.
            DatabaseUnavailable: it may have been done all the same.
        """
        if feature not in FEATURES:
            raise BadParameter(parameter="feature", value=feature, allowed=", ".join(FEATURES))
        if on:
            create_logs(self._store, feature, self._clock())
        value = ON if on else _OFF if feature == AUDIT_FEATURE else None
        self._change([(FEATURE, feature, value)], _make_switch(feature), by)

    def switch_on_at_first(self, feature: Feature) -> None:
        """Switch a feature on, unless an operator has ever switched it.

        Raises:
            DatabaseUnavailable: it may have been done all the same.
        """
        with self._store.read() as tx:
            if any((each.kind, each.name) == (FEATURE, feature) for each in tx.settings.list()):
                return
        self.switch(feature, on=True)

    def replace_retention(self, limits: RetentionLimits, by: Sender | None = None) -> None:
        """Replace the retention of event types that set none.

        Raises:
            BadParameter: a limit is not a positive number.
            HubUnavailable: see `check_changes`.
            DatabaseUnavailable: it may have been done all the same.
        """
        stored = {"retention_time": limits.time_ms, "retention_bytes": limits.size}
        for name, value in stored.items():
            if value is not None and not 1 <= value <= LIMIT_MAX:
                raise BadParameter(
                    parameter=name, value=value, allowed=f"a whole number from 1 to {LIMIT_MAX}, or null"
                )
        self.check_changes()
        puts = [(_RETENTION, name, None if value is None else str(value)) for name, value in sorted(stored.items())]
        self._change(puts, _DEFAULT_RETENTION, by)

    def replace_replica_readers(self, readers: Any, by: Sender | None = None) -> None:
        """Replace the list of callers whose reads may go to replicas, in the JSON shape of the wire; None: all callers.

        Raises:
            InvalidSetting, BadParameter: it is not a list of callers.
            HubUnavailable: see `check_changes`.
            DatabaseUnavailable: it may have been done all the same.
        """
        given = None
        if readers is not None:
            parsed = () if readers == [] else _parse_list("readers", readers)
            given = msgspec.json.encode(parsed).decode()
        self.check_changes()
        self._change([(_REPLICAS, "readers", given)], _REPLICA_READERS, by)

    def _change(self, puts: Sequence["_Put"], thing: "_Thing", by: Sender | None) -> None:
        try:
            with self._store.write() as tx:
                self._put(tx, puts, thing, by)
        except OutcomeUnknown as error:  # Repeating it does no harm.
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
        self.refresh()

    def _put(self, tx: Tx, puts: Sequence["_Put"], thing: "_Thing", by: Sender | None) -> None:
        """Put settings, and record how they change *thing*, also if they end or begin the recording."""
        settings = lock_audit_log(tx, self._clock())
        for kind, name, value in puts:
            tx.settings.put(kind, name, value)
        changed = tx.settings.list()
        before, after = (thing.describe(SettingsSnapshot.of(each)) for each in (settings, changed))
        if before != after:
            features = find_features(settings) | find_features(changed)
            change = AuditedChange(thing.resource_type, thing.resource_id, before, after)
            record_changes(tx, [change], by, self._clock(), features=features)


_Put = tuple[str, str, str | None]
"""The kind, the name and the value of a setting; None deletes it."""


class _Thing(NamedTuple):
    """The subject of settings, as the audit log names and describes it."""

    resource_type: ResourceType
    resource_id: str
    describe: Callable[[SettingsSnapshot], Mapping[str, Any] | None]


_ADMINISTRATORS: Final = _Thing("admins", "admins", lambda snapshot: snapshot.administration)

_DEFAULT_RETENTION: Final = _Thing("retention", "default", lambda snapshot: describe_limits(snapshot.retention))


def describe_replica_readers(snapshot: SettingsSnapshot) -> dict[str, Sequence[Attribute] | None]:
    """Return who reads from replicas as members of a JSON object; null stands for all callers."""
    return {"readers": snapshot.replica_readers}


_REPLICA_READERS: Final = _Thing("replicas", "readers", describe_replica_readers)


def describe_limits(limits: RetentionLimits) -> dict[str, int | None]:
    """Return limits as members of a JSON object, named as in the options of an event type."""
    return {"retention_time": limits.time_ms, "retention_bytes": limits.size}


def _make_block(kind: str, name: str) -> _Thing:
    shown = {"type": kind, "name": name}
    return _Thing(
        "blacklist_entry", f"{kind}:{name}", lambda snapshot: shown if (kind, name) in snapshot.blocked else None
    )


def _make_switch(feature: str) -> _Thing:
    return _Thing("feature", feature, lambda snapshot: {"feature": feature, "enabled": feature in snapshot.features})


def _put_list(name: str, members: Sequence[Attribute]) -> _Put:
    return _ADMINISTRATION, name, msgspec.json.encode(members).decode()


def _check_block(kind: str, name: str) -> None:
    if kind not in BLOCK_KINDS:
        raise BadParameter(parameter="type", value=kind, allowed=f"one of {', '.join(BLOCK_KINDS)}")
    if not (1 <= len(name) <= NAME_CHARS_MAX and name.isprintable()) or "\ufffd" in name:  # Of no UTF-8.
        allowed = f"1 to {NAME_CHARS_MAX} printable characters, in UTF-8"
        raise BadParameter(parameter="name", value=name[:NAME_CHARS_MAX], allowed=allowed)


def _parse_lists(given: Any) -> dict[str, tuple[Attribute, ...]]:
    """Parse the lists of a JSON object; a missing list is another error than one of a wrong type."""
    if not isinstance(given, dict):
        raise _make_mismatch_error("", given, f"an object of {', '.join(LISTS)}")
    return {name: _parse_list(name, given.get(name)) for name in LISTS}


def _parse_list(name: str, given: Any) -> tuple[Attribute, ...]:
    if given is None or given == []:
        raise InvalidSetting(field=name, reason="must name at least one, by data_type and value")
    if not isinstance(given, list):
        raise _make_mismatch_error(name, given, "a list")
    return tuple(dict.fromkeys(_parse_attribute(f"{name}[{number}]", each) for number, each in enumerate(given)))


def _parse_attribute(field: str, given: Any) -> Attribute:
    if not isinstance(given, dict):
        raise _make_mismatch_error(field, given, 'of the form {"data_type": "…", "value": "…"}')
    texts = []
    for member in ("data_type", "value"):
        text = given.get(member)
        if text is None:
            raise InvalidSetting(field=f"{field}.{member}", reason="may not be null")
        if not isinstance(text, str) or "\0" in text:  # Which PostgreSQL cannot keep.
            raise _make_mismatch_error(f"{field}.{member}", text, "a text")
        texts.append(text)
    return Attribute(*texts)


def _make_mismatch_error(field: str, value: Any, right: str) -> BadParameter:
    return BadParameter(f'Field "{field}" {describe_mismatch(value, right)}', parameter=field, allowed=right)
