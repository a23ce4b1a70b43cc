"""The hub's clocks and background threads."""

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

_log: Final = structlog.get_logger("penstock.clock")

Clock = Callable[[], int]
"""Returns microseconds since 1970, UTC."""


def system_clock() -> int:
    """Return the time now."""
    return time.time_ns() // 1_000


def uptime() -> float:
    """Return seconds of a monotonic clock that also counts while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


CLOCK_JUMP: Final = 60.0
"""A clock that runs ahead by more than this between two looks, in seconds, has jumped."""
CLOCK_PAUSE: Final = 3_600.0
"""How long a clock is not believed after it has jumped, in seconds."""


class CheckedClock:
    """A clock by which things are deleted: it is not believed for `CLOCK_PAUSE` after it has jumped forward.

    So an operator can correct it first. Meanwhile time goes on from where it was before. Not to be used from several
    threads.
    """

    def __init__(self, clock: Clock, monotonic: Callable[[], float] = uptime) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._believed = clock(), monotonic()
        self._doubted_since: float | None = None

    def __call__(self) -> int:
        """Return the time, in microseconds since 1970, UTC."""
        found, now = self._clock(), self._monotonic()
        at, since = self._believed
        expected = at + int((now - since) * 1_000_000)
        if found <= expected + CLOCK_JUMP * 1_000_000 or (
            self._doubted_since is not None and now - self._doubted_since >= CLOCK_PAUSE
        ):
            self._doubted_since = None
            self._believed = found, now
            return found
        if self._doubted_since is None:
            self._doubted_since = now
            _log.warning(
                "the clock has jumped forward: nothing expires by it for a while",
                seconds=(found - expected) // 1_000_000,
                pause=CLOCK_PAUSE,
            )
        return expected


class StepSize:
    """Adapts how much is done in one transaction to the time that it takes."""

    def __init__(self, least: int, most: int, seconds: float) -> None:
        """Do from *least* to *most* at a time, in about that many *seconds*."""
        self.size = least
        self._least, self._most, self._seconds = least, most, seconds

    def adapt(self, took: float) -> None:
        """Note how many seconds the last transaction took."""
        fits = int(self.size * self._seconds / max(took, 1e-6))
        self.size = max(self._least, min(self._most, fits, 2 * self.size))


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
