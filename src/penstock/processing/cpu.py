"""What the threads of a processor compute, by what they do.

It is read from the threads' own clocks: that costs them nothing, and a call that goes on is seen while it does.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

Activity: TypeAlias = Literal["schedule", "read", "handle", "commit"]
_clock_of: Final[Callable[[int], int] | None] = getattr(time, "pthread_getcpuclockid", None)
"""None: the system lets nobody read another thread's clock. What threads compute is known then when they end."""


class Cpu:
    """Seconds that threads have computed for, by what they do. May be asked by any thread."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._running: dict[int, tuple[int | None, Activity]] = {}
        """By thread: its clock, and what it does. None of them ends as long as it is here."""
        self._spent: Counter[str] = Counter()
        """By threads that have ended, and elsewhere."""

    def counted(self, activity: Activity, run: Callable[[], object]) -> Callable[[], None]:
        """Return what a thread is to run in the place of *run*, for its time to be counted."""

        def count_and_run() -> None:
            me = threading.get_ident()
            with self._turn:
                self._running[me] = None if _clock_of is None else _clock_of(me), activity
            try:
                run()
            finally:
                with self._turn:
                    del self._running[me]
                    self._spent[activity] += time.thread_time()  # type: ignore[assignment]

        return count_and_run

    @property
    def counts_me(self) -> bool:
        """Whether who asks is one of these threads."""
        return threading.get_ident() in self._running

    def add(self, activity: Activity, seconds: float) -> None:
        """Take note of what was computed elsewhere."""
        with self._turn:
            self._spent[activity] += seconds  # type: ignore[assignment]

    def seconds(self) -> dict[str, float]:
        """Return what was computed so far."""
        with self._turn:
            found: dict[str, float] = {**self._spent}
            for clock, activity in self._running.values():
                found[activity] = found.get(activity, 0.0) + (0.0 if clock is None else time.clock_gettime(clock))
        return found
