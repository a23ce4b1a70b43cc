"""How long and how often something that failed is tried again."""

import random
from collections.abc import Callable
from typing import Final

from penstock.client.exchange import Exchange, Pause, T
from penstock.errors import PenstockError

FIRST_DELAY_S: Final = 0.1
DELAY_S_MAX: Final = 30.0


class Backoff:
    """Delays that double from 0.1 s to 30 s, each shortened by chance by up to a half, so that clients spread.

    What a server asks for with Retry-After is kept to: it is never less than that.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        """Begin again with the shortest delay: something has succeeded."""
        self._failures = 0

    def delay(self, error: PenstockError) -> float:
        """Return the seconds to let pass after *error*."""
        longest = min(DELAY_S_MAX, FIRST_DELAY_S * 2.0 ** min(self._failures, 30))
        self._failures += 1
        own = float(longest * (1 - self._chance() / 2))
        asked = error.fields.get("retry_after")
        return own if not isinstance(asked, int | float) else float(asked) + min(own, 1.0)


def patiently(
    attempt: Callable[[], Exchange[T]],
    repeatable: Callable[[PenstockError], bool],
    seconds: float,
    clock: Callable[[], float],
) -> Exchange[T]:
    """Make *attempt*, again and again while it fails with something *repeatable*, for up to *seconds* in all.

    Raises:
        PenstockError: the last attempt's error.
    """
    backoff = Backoff()
    deadline = clock() + seconds
    while True:
        try:
            return (yield from attempt())
        except PenstockError as error:
            delay = backoff.delay(error)
            if not repeatable(error) or clock() + delay > deadline:
                raise
            pause = Pause(delay, error)
        yield pause
