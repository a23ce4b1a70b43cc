import logging

import pytest

from penstock.errors import ProcessorUnhealthy
from penstock.spark.processors.processor import ENDS_TIMEOUT, Ending


class Round:
    """A round at a time of the test's choice, of a processor that is well up to 10 s."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cancelled: list[float] = []
        self.ending = Ending(self.check, self.cancel, lambda: self.now)

    def check(self, now: float) -> None:
        if now > 10:
            raise ProcessorUnhealthy(streams=[f"a fails at {now:g}"])

    def cancel(self) -> None:
        self.cancelled.append(self.now)
        if len(self.cancelled) == 1:
            raise ConnectionError("Spark does not answer")

    def look_at(self, *times: float) -> None:
        for self.now in times:
            self.ending.look()


def test_round_may_end_by_itself_for_a_while_after_the_processor_is_unhealthy() -> None:
    made = Round()
    made.look_at(0, 10, 11, 11 + ENDS_TIMEOUT - 0.1)

    assert made.cancelled == []
    assert made.ending.error is None, "should it end now, what has come of it counts"


def test_round_of_an_unhealthy_processor_is_cancelled_repeatedly_until_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, times = Round(), [11 + ENDS_TIMEOUT, 12 + ENDS_TIMEOUT]
    with caplog.at_level(logging.WARNING, "penstock.processing"):
        made.look_at(11, *times)

    assert made.cancelled == times
    assert "a round could not be cancelled" in caplog.text
    assert str(made.ending.error) == str(ProcessorUnhealthy(streams=["a fails at 11"]))
