"""What is asked again, and when."""

import pytest

from penstock.errors import (
    ConnectionLost,
    DatabaseUnavailable,
    InvalidEvent,
    OutcomeUnknown,
    PenstockError,
    ServerError,
    Unavailable,
    Unreachable,
    WrongAddress,
)
from penstock.wire.retry import Backoff, is_passing

BUSY = Unavailable(reason="busy")
LONGEST_S = 30.0


def test_delays_double_up_to_a_bound() -> None:
    backoff = Backoff(LONGEST_S, chance=lambda: 0.0)

    delays = [backoff.delay(BUSY) for _ in range(12)]

    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LONGEST_S
    for _ in range(2000):
        assert backoff.delay(BUSY) == LONGEST_S
    backoff.reset()
    assert backoff.delay(BUSY) == 0.1


def test_chance_shortens_a_delay_by_a_half_at_most() -> None:
    assert Backoff(LONGEST_S, chance=lambda: 1.0).delay(BUSY) == 0.05


def test_a_server_is_never_asked_before_the_time_that_it_has_named() -> None:
    backoff = Backoff(LONGEST_S, chance=lambda: 1.0)
    asked = Unavailable(reason="busy", retry_after=60)

    delays = [backoff.delay(asked) for _ in range(10)]

    assert all(60 < delay <= 61 for delay in delays)


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (Unreachable(url="u", reason="r"), True),
        (ConnectionLost(url="u", reason="r"), True),
        (DatabaseUnavailable(reason="r"), True),
        (OutcomeUnknown(reason="r"), False),
        (InvalidEvent(line=1, reason="r"), False),
        (ServerError(status=500, url="u", body=""), True),
        (ServerError(status=502, url="u", body=""), True),
        (ServerError(status=429, url="u", body=""), True),
        (ServerError(status=401, url="u", body=""), False),
        (ServerError(status=404, url="u", body=""), False),
        (WrongAddress(status=404, url="u", body=""), False),
        (WrongAddress(status=501, url="u", body=""), False),
    ],
)
def test_what_can_pass_is_told_from_what_cannot(error: PenstockError, passing: bool) -> None:
    assert is_passing(error) is passing
