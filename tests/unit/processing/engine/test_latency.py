from random import Random

import pytest

from penstock.processing.engine.latency import Latency


def test_nothing_has_no_percentiles() -> None:
    assert Latency().percentiles() is None


def test_percentiles_are_near_in_little_memory() -> None:
    chance, latency = Random(7), Latency()
    given = sorted(chance.lognormvariate(-5, 2) for _ in range(20_000))
    for seconds in given:
        latency.add(seconds)

    found = latency.percentiles()

    assert found is not None
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        assert value == pytest.approx(given[int(share * len(given))], rel=0.05)
    assert found.max == given[-1]
    assert found.mean == pytest.approx(sum(given) / len(given))
    assert len(latency._classes) < 500


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e9])
def test_what_is_out_of_range_is_counted_at_its_end(seconds: float) -> None:
    latency = Latency()
    latency.add(seconds)

    found = latency.percentiles()

    assert found is not None
    assert (found.count, found.max) == (1, seconds)
    assert found.p99 <= seconds
