"""How long a read waits for a hub that does not answer: its service restarts, the query goes on."""

import logging
import random
import time
from collections.abc import Callable
from typing import Final

from penstock.errors import PenstockError, ServerError

FIRST_DELAY_S: Final = 0.1
DELAY_S_MAX: Final = 5.0
_log: Final = logging.getLogger("penstock.spark")


class Patience:
    """Lets time pass between attempts, for up to *seconds* since something last came.

    Delays double from 0.1 s to 5 s, each shortened by chance by up to a half, so that tasks spread.
    """

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._failures = 0
        self._deadline: float | None = None

    def reset(self) -> None:
        """Something has come: begin again with the shortest delay."""
        self._failures, self._deadline = 0, None

    def endure(self, error: PenstockError) -> None:
        """Wait after *error*; raise it when it will not pass, or has lasted too long."""
        if not is_passing(error):
            raise error
        now = self._clock()
        if self._deadline is None:
            self._deadline = now + self._seconds
        delay = min(DELAY_S_MAX, FIRST_DELAY_S * 2.0**self._failures) * (1 - self._chance() / 2)
        delay = max(delay, float(error.fields.get("retry_after", 0)))
        if now + delay > self._deadline:
            raise error
        if self._failures == 0:
            _log.warning("%s; trying again for up to %g s", error.detail, self._seconds)
        self._failures += 1
        self._sleep(delay)


def is_passing(error: PenstockError) -> bool:
    """Say whether what failed with *error* can succeed later, unchanged."""
    if isinstance(error, ServerError):
        status = int(error.fields["status"])
        return status in (408, 425, 429) or status >= 500
    return error.retryable
