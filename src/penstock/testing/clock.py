"""A clock that stands still until a test moves it."""

from datetime import timedelta
from threading import Lock
from typing import Any, Final

from penstock.processing.parameters import check_kind, check_number, check_whole

__all__ = ["VirtualClock"]

START_AT: Final = 1_700_000_000_000_000
"""When virtual time begins: 2023-11-14T22:13:20Z, in microseconds since 1970."""
_MICROSECOND: Final = timedelta(microseconds=1)
_SECONDS_MAX: Final = 1_000 * 366 * 86_400


class VirtualClock:
    """Time that passes only when a test says so: `Hub(store, clock=VirtualClock())`. Safe to use from many threads.

    It begins at *at*, in microseconds since 1970, UTC.

    Raises:
        BadParameter: that is no whole number; (`advance`) what is to pass is no time, or more than a thousand years.

    >>> clock = VirtualClock()
    >>> clock.advance(seconds=1.5)
    1700000001500000
    >>> clock()
    1700000001500000
    """

    def __init__(self, at: int = START_AT) -> None:
        check_whole("at", at)
        self._now = at
        self._guard = Lock()

    def __call__(self) -> int:
        """Return the time now, in microseconds since 1970, UTC."""
        return self._now

    def advance(self, *, seconds: float = 0, microseconds: int = 0) -> int:
        """Let so much time pass, and return the time then. Less than nothing sets the clock back, as people do."""
        check_number("seconds", seconds, least=-_SECONDS_MAX, most=_SECONDS_MAX, allowed="a number of seconds")
        check_whole("microseconds", microseconds)
        step = timedelta(seconds=seconds, microseconds=microseconds) // _MICROSECOND
        with self._guard:
            self._now += step
            return self._now


def check_clock(value: Any) -> None:
    """Raise BadParameter unless *value* is such a clock."""
    check_kind("clock", value, VirtualClock, "a VirtualClock")
