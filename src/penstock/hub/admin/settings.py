"""What operators have told the hub: who administers it, who is blocked, which features are on.

Every hub process remembers all of it, so that nothing that is asked of a hub costs a query more: what this process
changes holds at once, what another one changes within `watch.REFRESH_INTERVAL` and the time that two looks take.

May they? The one place where that is asked, whoever asks and whatever for.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from penstock.core.events.encoding import describe_mismatch
from penstock.errors import (
    BadParameter,
    Blocked,
    ChangesSwitchedOff,
    DatabaseUnavailable,
    InvalidSetting,
    OutcomeUnknown,
)
from penstock.storage.store import Setting, Store

BlockKind = Literal["CONSUMER_APP", "CONSUMER_ET", "PRODUCER_APP", "PRODUCER_ET"]
"""Whether an application or an event type is blocked, for consumers or for producers; written as in Nakadi."""
Feature = Literal[
    "delete_event_type_with_subscriptions",
    "disable_db_write_operations",
    "disable_event_type_creation",
    "disable_event_type_deletion",
    "disable_subscription_creation",
    "return_body_on_create_update_event_type",
]
"""Those of Nakadi's features (7) that mean something here."""

BLOCK_KINDS: Final[tuple[str, ...]] = get_args(BlockKind)
FEATURES: Final[tuple[str, ...]] = get_args(Feature)
LISTS: Final = ("admins", "readers", "writers")
NAME_CHARS_MAX: Final = 255
LOOK_INTERVAL: Final = 0.5
"""For so long a hub that was not started knows what others have changed."""
KEPT_SECONDS_MAX: Final = 300.0
"""For so long what was last seen holds while the database cannot be asked."""
_ADMINISTRATION: Final = "administration"
_FEATURE: Final = "feature"
_ON: Final = "on"


class Attribute(msgspec.Struct, frozen=True, order=True):
    """Whom a list names, as Nakadi writes it: `{"data_type": "service", "value": "billing"}`."""

    data_type: str
    value: str


Administration = Mapping[str, tuple[Attribute, ...]]
"""By each of `LISTS`, whom it names."""


class SettingsSnapshot(NamedTuple):
    """All settings as they were at one look."""

    administration: Administration
    blocked: frozenset[tuple[str, str]]
    """Kind and name of what is blocked."""
    features: frozenset[str]
    """Those that are on."""

    @classmethod
    def of(cls, settings: Collection[Setting]) -> "SettingsSnapshot":
        """Make sense of what is stored; what only another version knows is passed over."""
        lists = {each.name: each.value for each in settings if each.kind == _ADMINISTRATION}
        decode = msgspec.json.Decoder(tuple[Attribute, ...]).decode
        return cls(
            administration={name: decode(lists[name]) if name in lists else () for name in LISTS},
            blocked=frozenset((each.kind, each.name) for each in settings if each.kind in BLOCK_KINDS),
            features=frozenset(each.name for each in settings if each.kind == _FEATURE and each.name in FEATURES),
        )


class Settings:
    """The settings of one store. Safe to use from many threads.

    Until it is started there is nobody to look for what others change: whoever asks does, when it is time. After that
    somebody else has to, again and again.
    """

    def __init__(
        self, store: Store, changed: Callable[[], Any], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """*changed* is called, from any thread, whenever a look has found something else than the one before."""
        self._store = store
        self._changed = changed
        self._monotonic = monotonic
        self._looking = threading.Lock()
        self._picture: SettingsSnapshot | None = None
        self._looked_at = self._seen_at = float("-inf")
        self._started = False

    def start(self) -> None:
        """Look for the first time, and from here on only when `look` is called; harmless when repeated.

        Raises:
            DatabaseUnavailable: the database cannot be asked.
        """
        self.look()
        self._started = True

    def look(self) -> None:
        """See what others have changed, and tell if it is anything.

        Raises:
            DatabaseUnavailable: the database cannot be asked; what was last seen holds.
        """
        with self._looking:  # One after the other: none puts an older picture in the place of a newer one.
            self._looked_at = self._monotonic()
            with self._store.read() as tx:
                found = SettingsSnapshot.of(tx.settings.all())
            before, self._picture = self._picture, found
            self._seen_at = self._monotonic()
        if before is not None and before != found:
            self._changed()

    def now(self) -> SettingsSnapshot:
        """Return all settings; those of a hub that was started without asking the database.

        Raises:
            DatabaseUnavailable: it could not be asked for longer than `KEPT_SECONDS_MAX`, or has never been.
        """
        now = self._monotonic()
        if self._picture is None or (not self._started and now - self._looked_at > LOOK_INTERVAL):
            try:
                self.look()
            except DatabaseUnavailable:
                if now - self._seen_at > KEPT_SECONDS_MAX:
                    raise
        if now - self._seen_at > KEPT_SECONDS_MAX:
            reason = f"the hub's settings could not be read for {KEPT_SECONDS_MAX:g} s"
            raise DatabaseUnavailable(reason=reason, retry_after=1)
        assert self._picture is not None
        return self._picture

    def is_on(self, feature: Feature) -> bool:
        """Tell whether *feature* is on: see `now`."""
        return feature in self.now().features

    def is_blocked(self, kind: BlockKind, name: str) -> bool:
        """Tell whether *name* is blocked: see `now`."""
        return (kind, name) in self.now().blocked

    def check_changes(self) -> None:
        """Raise ChangesSwitchedOff where event types, and settings other than features, must stay as they are."""
        if self.is_on("disable_db_write_operations"):
            raise ChangesSwitchedOff(retry_after=30)

    def block(self, kind: str, name: str) -> None:
        """Block an application or an event type, whether there is one of that name or not; harmless when repeated.

        Raises:
            BadParameter: there is no such kind, or nothing can have that name.
            ChangesSwitchedOff: see `check_changes`.
            DatabaseUnavailable: it may have been done all the same.
        """
        _check_block(kind, name)
        self.check_changes()
        self._change([Setting(kind, name, _ON)])

    def unblock(self, kind: str, name: str) -> None:
        """Lift a block, if there is one; raises what `block` does."""
        _check_block(kind, name)
        self.check_changes()
        self._change([], without=[(kind, name)])

    def administer(self, lists: Any) -> None:
        """Replace the three lists of those who administer the hub by *lists*, as they are written in JSON.

        Raises:
            InvalidSetting: a list is missing or empty, or names somebody in another way than it should.
            ChangesSwitchedOff: see `check_changes`.
            DatabaseUnavailable: it may have been done all the same.
        """
        given = _lists(lists)
        self.check_changes()
        encode = msgspec.json.encode
        self._change([Setting(_ADMINISTRATION, name, encode(given[name]).decode()) for name in LISTS])

    def switch(self, feature: str, *, on: bool) -> None:
        """Switch a feature on or off; harmless when repeated.

        Raises:
            BadParameter: there is no such feature.
            DatabaseUnavailable: it may have been done all the same.
        """
        if feature not in FEATURES:
            raise BadParameter(parameter="feature", value=feature, allowed=", ".join(FEATURES))
        if on:
            self._change([Setting(_FEATURE, feature, _ON)])
        else:
            self._change([], without=[(_FEATURE, feature)])

    def _change(self, settings: Sequence[Setting], without: Sequence[tuple[str, str]] = ()) -> None:
        try:
            with self._store.write() as tx:
                for each in settings:
                    tx.settings.put(*each)
                for kind, name in without:
                    tx.settings.remove(kind, name)
        except OutcomeUnknown as error:  # To do it again does no harm.
            raise DatabaseUnavailable(reason=error.reason, retry_after=1) from error
        self.look()


def _check_block(kind: str, name: str) -> None:
    if kind not in BLOCK_KINDS:
        raise BadParameter(parameter="type", value=kind, allowed=f"one of {', '.join(BLOCK_KINDS)}")
    if not (1 <= len(name) <= NAME_CHARS_MAX and name.isprintable()) or "\ufffd" in name:  # What was no UTF-8.
        allowed = f"1 to {NAME_CHARS_MAX} printable characters, in UTF-8"
        raise BadParameter(parameter="name", value=name[:NAME_CHARS_MAX], allowed=allowed)


def _lists(given: Any) -> dict[str, tuple[Attribute, ...]]:
    """Read the lists as they are written in JSON: what is missing is another mistake than what is of a wrong type."""
    if not isinstance(given, dict):
        raise _mistyped("", given, f"an object of {', '.join(LISTS)}")
    return {name: _list(name, given.get(name)) for name in LISTS}


def _list(name: str, given: Any) -> tuple[Attribute, ...]:
    if given is None or given == []:
        raise InvalidSetting(field=name, reason="must name at least one, by data_type and value")
    if not isinstance(given, list):
        raise _mistyped(name, given, "a list")
    return tuple(dict.fromkeys(_attribute(f"{name}[{number}]", each) for number, each in enumerate(given)))


def _attribute(field: str, given: Any) -> Attribute:
    if not isinstance(given, dict):
        raise _mistyped(field, given, 'of the form {"data_type": "…", "value": "…"}')
    texts = []
    for member in ("data_type", "value"):
        text = given.get(member)
        if text is None:
            raise InvalidSetting(field=f"{field}.{member}", reason="may not be null")
        if not isinstance(text, str) or "\0" in text:  # Which PostgreSQL cannot keep.
            raise _mistyped(f"{field}.{member}", text, "a text")
        texts.append(text)
    return Attribute(*texts)


def _mistyped(field: str, value: Any, right: str) -> BadParameter:
    return BadParameter(f'Field "{field}" {describe_mismatch(value, right)}', parameter=field, allowed=right)


Permission = Literal["read", "write", "admin", "view", "administer"]
"""What somebody wants to do: read an event type's events, write some, change or drop it, look at its definition; or
administer the hub itself."""


class Caller(msgspec.Struct, frozen=True):
    """Who asks."""

    application: str


UNAUTHENTICATED: Final = Caller("unauthenticated")
"""Everybody, as long as nobody is asked who they are; Nakadi calls them so too."""

_BLOCKED_BY: Final[dict[str, tuple[BlockKind, BlockKind]]] = {
    "read": ("CONSUMER_APP", "CONSUMER_ET"),
    "write": ("PRODUCER_APP", "PRODUCER_ET"),
}


class Permissions:
    """Decides who may do what.

    So far only the blacklist says no: nobody is asked who they are, and an event type's `authorization` is kept and
    shown but not looked at, as in Nakadi with its default plugin, under which everybody administers everything. Who
    may do what by `authorization`, and who administers the hub, is to be decided here too, and nowhere else.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, caller: Caller, permission: Permission, event_type: str | None = None) -> None:
        """Return if *caller* may; *event_type* is the one concerned, None where it is the hub as a whole.

        It costs no query, and can be asked on an event loop. What it says changes while somebody reads: those who
        wait are woken by the hub's watch then, and have to ask again.

        Raises:
            Blocked: an operator has blocked the application or the event type.
            DatabaseUnavailable: see `Settings.now`.
        """
        blocked = self._settings.now().blocked
        if not blocked or permission not in _BLOCKED_BY:
            return
        by_application, by_event_type = _BLOCKED_BY[permission]
        if (by_application, caller.application) in blocked or (by_event_type, event_type) in blocked:
            raise Blocked(event_type=event_type, application=caller.application)
