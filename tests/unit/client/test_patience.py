from collections.abc import Generator
from typing import Any

import pytest

from penstock.client.patience import DELAY_S_MAX, Backoff, patiently
from penstock.errors import InvalidEvent, PenstockError, Unavailable
from tests.unit.client.script import Script

BUSY = Unavailable(reason="busy")


def test_delays_double_up_to_a_bound() -> None:
    backoff = Backoff(chance=lambda: 0.0)

    delays = [backoff.delay(BUSY) for _ in range(12)]

    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == DELAY_S_MAX
    for _ in range(2000):
        assert backoff.delay(BUSY) == DELAY_S_MAX
    backoff.reset()
    assert backoff.delay(BUSY) == 0.1


def test_chance_shortens_a_delay_by_a_half_at_most() -> None:
    assert Backoff(chance=lambda: 1.0).delay(BUSY) == 0.05


def test_a_server_is_never_asked_before_the_time_that_it_has_named() -> None:
    backoff = Backoff(chance=lambda: 1.0)
    asked = Unavailable(reason="busy", retry_after=60)

    delays = [backoff.delay(asked) for _ in range(10)]

    assert all(60 < delay <= 61 for delay in delays)


def failing(*errors: PenstockError) -> Any:
    left = list(errors)

    def attempt() -> Generator[Any, Any, str]:
        yield from ()
        if left:
            raise left.pop(0)
        return "done"

    return attempt


def test_what_can_pass_is_tried_again_until_it_has_passed() -> None:
    script = Script()

    assert script.play(patiently(failing(BUSY, BUSY), lambda _: True, 30, script.clock)) == "done"
    assert len(script.pauses) == 2
    assert script.pauses[0].because is BUSY


def test_patience_ends() -> None:
    script = Script()

    with pytest.raises(Unavailable):
        script.play(patiently(failing(*[BUSY] * 1000), lambda _: True, 30, script.clock))
    assert 10 < sum(script.seconds) <= 30


def test_without_patience_nothing_is_tried_again() -> None:
    script = Script()

    with pytest.raises(Unavailable):
        script.play(patiently(failing(BUSY), lambda _: True, 0, script.clock))
    assert script.pauses == []


def test_what_cannot_pass_is_not_tried_again() -> None:
    script = Script()

    with pytest.raises(InvalidEvent):
        script.play(patiently(failing(InvalidEvent(reason="x")), lambda error: error.retryable, 30, script.clock))
    assert script.pauses == []
