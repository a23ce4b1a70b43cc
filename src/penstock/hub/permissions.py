"""May they? The one place where that is asked, whoever asks and whatever for."""

from typing import Final, Literal

import msgspec

from penstock.errors import Blocked
from penstock.hub.settings import BlockKind, Settings

Operation = Literal["read", "write", "admin", "view", "administer"]
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

    def check(self, caller: Caller, operation: Operation, event_type: str | None = None) -> None:
        """Return if *caller* may; *event_type* is the one concerned, None where it is the hub as a whole.

        It costs no query, and can be asked on an event loop. What it says changes while somebody reads: those who
        wait are woken by the hub's watch then, and have to ask again.

        Raises:
            Blocked: an operator has blocked the application or the event type.
            DatabaseUnavailable: see `Settings.now`.
        """
        blocked = self._settings.now().blocked
        if not blocked or operation not in _BLOCKED_BY:
            return
        by_application, by_event_type = _BLOCKED_BY[operation]
        if (by_application, caller.application) in blocked or (by_event_type, event_type) in blocked:
            raise Blocked(event_type=event_type, application=caller.application)
