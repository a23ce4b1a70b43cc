"""How long a read waits for a hub that does not answer: its service restarts, the query goes on."""

import logging
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from penstock.errors import PenstockError
from penstock.wire.http import RetryBackoff, is_transient

DELAY_SECONDS_MAX: Final = 5.0
Result = TypeVar("Result")
_log: Final = logging.getLogger("penstock.spark")


def patiently(seconds: float, attempt: Callable[[], Result]) -> Result:
    """Return what *attempt* returns, tried again for up to *seconds* while its error will pass.

    Raises:
        PenstockError: the last one.
    """
    patience = Patience(seconds)
    while True:
        try:
            return attempt()
        except PenstockError as error:
            patience.endure(error)


class Patience:
    """Lets time pass between attempts, for up to *seconds* since something last came.

    Delays are those of `RetryBackoff`, of up to 5 s.
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
        self._backoff = RetryBackoff(DELAY_SECONDS_MAX, chance)
        self._deadline: float | None = None

    def reset(self) -> None:
        """Something has come: begin again with the shortest delay."""
        self._backoff.reset()
        self._deadline = None

    def endure(self, error: PenstockError) -> None:
        """Wait after *error*; raise it when it will not pass, or has lasted too long."""
        if not is_transient(error):
            raise error
        now, delay = self._clock(), self._backoff.delay(error)
        is_first = self._deadline is None
        if self._deadline is None:
            self._deadline = now + self._seconds
        if now + delay > self._deadline:
            raise error
        if is_first:
            _log.warning("%s; trying again for up to %g s", error.detail, self._seconds)
        self._sleep(delay)
