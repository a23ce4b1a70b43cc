"""How long and how often something that failed is tried again."""

from collections.abc import Callable
from typing import Any, Final

from penstock.errors import BadParameter, PenstockError
from penstock.wire.exchange import Exchange, Pause, T
from penstock.wire.retry import Backoff

DELAY_S_MAX: Final = 30.0


def patiently(
    attempt: Callable[[], Exchange[T]],
    repeatable: Callable[[PenstockError], bool],
    seconds: float,
    clock: Callable[[], float],
    *,
    delay_max: float = DELAY_S_MAX,
    attempts_max: int | None = None,
) -> Exchange[T]:
    """Make *attempt*, again and again while it fails with something *repeatable*, for up to *seconds* in all.

    Where *attempts_max* is given, no more often than that.

    Raises:
        PenstockError: the last attempt's error.
    """
    backoff = Backoff(delay_max)
    deadline = clock() + seconds
    attempts = 0
    while True:
        attempts += 1
        try:
            return (yield from attempt())
        except PenstockError as error:
            delay = backoff.delay(error)
            if not repeatable(error) or attempts == attempts_max or clock() + delay > deadline:
                raise
            pause = Pause(delay, error)
        yield pause


def check_patience(value: Any) -> None:
    """Raise BadParameter unless *value* is a number of seconds, 0 or more; it may be without end."""
    if type(value) not in (int, float) or not value >= 0:
        raise BadParameter(parameter="patience", value=value, allowed="a number of seconds, 0 or more")
