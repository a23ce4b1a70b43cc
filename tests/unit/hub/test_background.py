"""Clocks by which things are deleted, and steps that adapt to the time that they take."""

import pytest

from penstock.hub.background import CLOCK_PAUSE, CheckedClock, StepSize
from penstock.testing.clock import START_AT, VirtualClock

DAY = 86_400.0
SECOND = 1_000_000


class Uptime:
    """A monotonic clock that moves with the virtual one, unless that is set."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.behind = 0.0

    def __call__(self) -> float:
        return self._clock() / 1e6 - self.behind

    def set_clock(self, seconds: float) -> None:
        """Set the virtual clock forward or back."""
        self._clock.advance(seconds=seconds)
        self.behind += seconds


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def uptime(clock: VirtualClock) -> Uptime:
    return Uptime(clock)


def test_clock_that_runs_or_is_set_back_is_believed(clock: VirtualClock, uptime: Uptime) -> None:
    checked = CheckedClock(clock, uptime)
    clock.advance(seconds=DAY)
    assert checked() == clock()

    uptime.set_clock(-DAY)

    assert checked() == clock() == START_AT


def test_time_goes_on_from_before_a_jump_until_the_clock_has_been_ahead_for_an_hour(
    clock: VirtualClock, uptime: Uptime
) -> None:
    checked = CheckedClock(clock, uptime)
    uptime.set_clock(DAY)
    assert checked() == START_AT

    clock.advance(seconds=CLOCK_PAUSE - 1)
    assert checked() == START_AT + int(CLOCK_PAUSE - 1) * SECOND
    clock.advance(seconds=2)
    assert checked() == clock() == START_AT + int(DAY + CLOCK_PAUSE + 1) * SECOND


def test_clock_that_is_corrected_in_time_is_believed_at_once(clock: VirtualClock, uptime: Uptime) -> None:
    checked = CheckedClock(clock, uptime)
    uptime.set_clock(DAY)
    checked()
    uptime.set_clock(-DAY)
    clock.advance(seconds=5)
    assert checked() == clock()

    uptime.set_clock(DAY)

    assert checked() == clock() - int(DAY) * SECOND, "it is doubted anew"


def test_step_doubles_at_most_and_shrinks_to_what_fits() -> None:
    step = StepSize(10, 100, seconds=0.1)
    sizes = []
    for took in (0.001, 0.1, 0.001, 0.001, 0.001, 1.0, 100.0):
        step.adapt(took)
        sizes.append(step.size)

    assert sizes == [20, 20, 40, 80, 100, 10, 10]
