"""The hub's clocks and background threads."""

import threading
import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns microseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


def uptime() -> float:
    """Return seconds of a monotonic clock that also counts while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Background:
    """A daemon thread that calls *run* once; the process does not wait for it at exit."""

    def __init__(self, name: str, run: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._guard = threading.Lock()

    @property
    def started(self) -> bool:
        """True once it was started, even if it has ended."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start it; harmless when repeated, from several threads too."""
        if self._thread.ident is not None:
            return
        with self._guard:
            if not self.started:
                self._thread.start()

    def wait_for_end(self, timeout: float | None = None) -> bool:
        """Wait for its end; return whether that came within *timeout*. One that was never started has ended."""
        if not self.started:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()
