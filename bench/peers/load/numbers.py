"""Finds the number of an event."""

from typing import Final

from bench.events import BEFORE, DIGITS

_BEFORE: Final = BEFORE.encode()


def number_in(event: bytes) -> int:
    """Return the number of an event as `bench.events` makes them; other bytes may stand around it."""
    start = event.index(_BEFORE) + len(_BEFORE)
    return int(event[start : start + DIGITS])
