import logging

import pytest

from penstock.errors import EventTypeNotFound, PenstockError, ServerError, Unavailable, Unreachable
from penstock.spark.patience import Patience, patiently

LOST = Unreachable(url="http://hub", reason="refused")


class Time:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def patience(time: Time, seconds: float) -> Patience:
    return Patience(seconds, clock=time.clock, sleep=time.sleep, chance=lambda: 0.0)


def test_retry_delays_double_until_the_retry_timeout() -> None:
    time = Time()
    waiting = patience(time, 20)

    for _ in range(8):
        waiting.endure(LOST)
    with pytest.raises(Unreachable):
        waiting.endure(LOST)

    assert time.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_retry_timeout_restarts_after_progress() -> None:
    time = Time()
    waiting = patience(time, 1)
    for _ in range(5):
        waiting.endure(LOST)
        time.now += 100
        waiting.reset()

    assert time.slept == [0.1] * 5


def test_retry_timeout_of_zero_makes_no_second_attempt() -> None:
    with pytest.raises(Unreachable):
        patience(Time(), 0).endure(LOST)


def test_retry_after_of_the_hub_is_respected() -> None:
    time = Time()

    patience(time, 10).endure(Unavailable(reason="busy", retry_after=3.0))

    assert time.slept == [3.1]


@pytest.mark.parametrize("error", [EventTypeNotFound(event_type="x"), ServerError(status=404, url="u", body="")])
def test_permanent_error_is_raised_without_retry(error: PenstockError) -> None:
    time = Time()

    with pytest.raises(type(error)):
        patience(time, 10).endure(error)

    assert not time.slept


def test_only_the_first_retry_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    waiting = patience(Time(), 20)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        waiting.endure(LOST)
        waiting.endure(LOST)

    assert [record.getMessage() for record in caplog.records] == [
        "http://hub cannot be reached: refused; trying again for up to 20 s"
    ]


def test_transient_error_is_retried_and_permanent_error_is_raised() -> None:
    told: list[PenstockError] = [LOST, EventTypeNotFound(event_type="a")]

    def attempt() -> str:
        if told:
            raise told.pop(0)
        return "done"

    with pytest.raises(EventTypeNotFound):
        patiently(30, attempt)
    assert patiently(30, attempt) == "done"
