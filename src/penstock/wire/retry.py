"""What failures of a request can pass, and how long to wait before the same is asked again."""

import random
from collections.abc import Callable
from typing import Final

from penstock.errors import PenstockError, ServerError, WrongAddress

FIRST_DELAY_S: Final = 0.1


def is_passing(error: PenstockError) -> bool:
    """Say whether a read that failed with *error* can succeed later, unchanged."""
    if isinstance(error, ServerError):
        status = int(error.fields["status"])
        return not isinstance(error, WrongAddress) and (status in {408, 425, 429} or status >= 500)
    return error.retryable


class Backoff:
    """Delays that double from 0.1 s to *longest_s*, each shortened by chance by up to a half, so that clients spread.

    What a server asks for with Retry-After is kept to: it is never less than that.
    """

    def __init__(self, longest_s: float, chance: Callable[[], float] = random.random) -> None:
        self._longest_s = longest_s
        self._chance = chance
        self._failures = 0

    def reset(self) -> None:
        """Begin again with the shortest delay: something has succeeded."""
        self._failures = 0

    def delay(self, error: PenstockError) -> float:
        """Return the seconds to let pass after *error*."""
        longest = min(self._longest_s, FIRST_DELAY_S * 2.0 ** min(self._failures, 30))
        self._failures += 1
        own = float(longest * (1 - self._chance() / 2))
        asked = error.fields.get("retry_after")
        return own if not isinstance(asked, int | float) else float(asked) + min(own, 1.0)
