"""The time, as processing keeps it beside what it remembers."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Gives microseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000
