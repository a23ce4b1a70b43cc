"""Time as the log keeps it.

The hub's own threads: each is started once, and ends when what it runs does.
"""

import threading
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


class Background:
    """A thread that runs *run* once it is started; a process that ends does not wait for it."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._guard = threading.Lock()

    @property
    def started(self) -> bool:
        """Whether it has been, be it over or not."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start it; harmless when repeated, from several threads too."""
        with self._guard:
            if not self.started:
                self._thread.start()

    def ended(self, timeout: float | None = None) -> bool:
        """Wait for its end; tell whether that came within *timeout*. One that was never started has ended."""
        if not self.started:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()
