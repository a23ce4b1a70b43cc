"""Time as the log keeps it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Gives microseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


def uptime() -> float:
    """Return seconds that do not go back, and go on while the machine sleeps, where it tells that."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def rfc3339(at: int) -> str:
    """Return *at* as people and Nakadi write it: UTC, milliseconds.

    >>> rfc3339(1_474_644_913_273_000)
    '2016-09-23T15:35:13.273Z'
    """
    return datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{at // 1000 % 1000:03}Z"
