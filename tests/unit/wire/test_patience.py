from collections.abc import Generator
from typing import Any

import pytest

from penstock.errors import InvalidEvent, PenstockError, Unavailable
from penstock.wire.patience import patiently
from tests.unit.wire.script import Script

BUSY = Unavailable(reason="busy")


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


def test_it_is_tried_no_more_often_than_may_be_and_waited_no_longer() -> None:
    script = Script()

    with pytest.raises(Unavailable):
        script.play(patiently(failing(*[BUSY] * 9), lambda _: True, 30, script.clock, delay_max=0.15, attempts_max=8))
    assert len(script.pauses) == 7
    assert 0.05 <= min(script.seconds) <= max(script.seconds) <= 0.15


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
