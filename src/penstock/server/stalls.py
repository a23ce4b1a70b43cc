"""Measures how long the event loop is kept from serving others."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

TICK_SECONDS: Final = 0.010
"""The timer's interval; what is measured can be longer than a stall by so much."""
IDLE_TICKS: Final = 100
"""After so many ticks without a request the timer stops: a hub that waits does not wake for it."""


class StallWatch:
    """Measures the processor time that the event loop's thread uses between two ticks of a timer, while requests come.

    That is how long the loop has kept other requests waiting. It leaves out the time in which other programs, or worker
    threads of this process, had the processor.
    """

    def __init__(self, thread_time: Callable[[], float] = time.thread_time) -> None:
        """Measure by *thread_time*, the processor time of the calling thread."""
        self.seconds_max = 0.0
        """The longest time so far."""
        self._thread_time = thread_time
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop on which the timer runs; None if it does not."""
        self._idle_ticks = 0
        self._last = 0.0

    @property
    def runs(self) -> bool:
        """Whether the timer runs."""
        return self._loop is not None

    def notice(self) -> None:
        """Note that a request has come; called on the event loop."""
        self._idle_ticks = 0
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._last = self._thread_time()
            loop.call_later(TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is not self._loop:
            return  # The application is served by another loop now.
        now = self._thread_time()
        self.seconds_max = max(self.seconds_max, now - self._last)
        self._last = now
        self._idle_ticks += 1
        if self._idle_ticks < IDLE_TICKS:
            loop.call_later(TICK_SECONDS, self._tick, loop)
        else:
            self._loop = None
