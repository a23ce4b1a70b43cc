"""How long and how often something that failed is tried again."""

from collections.abc import Callable
from typing import Final

from penstock.client.exchange import Exchange, Pause, T
from penstock.errors import PenstockError
from penstock.wire.retry import Backoff

DELAY_S_MAX: Final = 30.0


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
    backoff = Backoff(DELAY_S_MAX)
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
