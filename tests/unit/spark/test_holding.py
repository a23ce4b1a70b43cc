"""Micro-batches wait until there is enough, or for long enough."""

from penstock.spark.stream import Holding


def test_a_batch_waits_for_enough_events() -> None:
    holding = Holding(10, 60.0, clock=lambda: 0.0)

    assert holding.holds(9)
    assert not holding.holds(10)


def test_a_batch_waits_no_longer_than_is_said_since_the_last_one() -> None:
    at = [100.0]
    holding = Holding(10, 60.0, clock=lambda: at[0])

    def holds_at(now: float) -> bool:
        at[0] = now
        return holding.holds(1)

    assert [holds_at(now) for now in (100.0, 159.0, 160.0, 200.0, 219.0, 220.0)] == [
        True,
        True,
        False,
        True,
        True,
        False,
    ]


def test_batch_without_minimum_does_not_wait() -> None:
    assert not Holding(None, 60.0, clock=lambda: 0.0).holds(1)
