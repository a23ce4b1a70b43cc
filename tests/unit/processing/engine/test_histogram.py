from random import Random

import pytest

from penstock.processing.engine.histogram import BOUNDS_S, Histogram
from penstock.processing.engine.latency import Latency


def counted(*durations: float) -> Histogram:
    latency = Latency()
    for each in durations:
        latency.add(each)
    return latency.histogram()


def test_buckets_count_what_took_up_to_each_bound() -> None:
    chance = Random(3)
    durations = [10 ** chance.uniform(-7, 2) for _ in range(5_000)]

    buckets = counted(*durations).buckets()

    assert [bound for bound, _ in buckets] == [*BOUNDS_S]
    assert [count for _, count in buckets] == [sum(each < bound for each in durations) for bound in BOUNDS_S]


def test_what_came_after_an_earlier_moment_is_told_apart() -> None:
    latency = Latency()
    latency.add(0.001)
    earlier = latency.histogram()
    latency.add(1.0)
    latency.add(1.0)
    recent = latency.histogram().since(earlier)

    assert (recent.count, recent.sum) == (2, 2.0)
    assert recent.percentile(0.5) == pytest.approx(1.0, rel=0.05)
    assert latency.histogram().since(None).count == 3
    assert earlier.count == 1, "it does not grow any more"


def test_nothing_takes_no_time() -> None:
    assert counted().percentile(0.99) == 0.0
