"""Measures of an engine: durations, outcomes by tag, and streams by state."""

from dataclasses import dataclass
from random import Random

import pytest

from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure, done
from penstock.processing.stats import OTHER, TAGS_MAX, Histogram, Latency
from tests.unit.processing.engine.items import batch, begin, engine, settle_next, things


def test_percentiles_are_accurate_in_little_memory() -> None:
    chance, latency = Random(7), Latency()
    given = sorted(chance.lognormvariate(-5, 2) for _ in range(20_000))
    for seconds in given:
        latency.add(seconds)

    found = latency.histogram()

    for share in (0.5, 0.95, 0.99):
        assert found.percentile(share) == pytest.approx(given[int(share * len(given))], rel=0.05)
    assert found.sum == pytest.approx(sum(given))
    assert found.count == len(given)
    assert len(found.classes) < 500


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, 1e-6), (1e-9, 1e-6), (1e9, 1e-6 * 2**40)])
def test_duration_out_of_range_is_counted_at_its_end(seconds: float, shown: float) -> None:
    found = make_histogram(seconds)

    assert (found.count, found.sum) == (1, seconds)
    assert found.percentile(0.99) == pytest.approx(shown, rel=0.05)


def make_histogram(*durations: float) -> Histogram:
    latency = Latency()
    for each in durations:
        latency.add(each)
    return latency.histogram()


def test_buckets_count_durations_up_to_each_bound() -> None:
    chance = Random(3)
    durations = [10 ** chance.uniform(-7, 2) for _ in range(5_000)]

    buckets = make_histogram(*durations).buckets()

    bounds = [1e-6 * 2**power for power in range(6, 26)]
    assert [bound for bound, _ in buckets] == bounds
    assert [count for _, count in buckets] == [sum(each < bound for each in durations) for bound in bounds]


def test_durations_since_an_earlier_histogram_are_told_apart() -> None:
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


def test_empty_histogram_has_percentile_zero() -> None:
    assert make_histogram().percentile(0.99) == 0.0


def test_tags_beyond_the_limit_are_counted_as_one() -> None:
    running = engine(is_dense=True)
    for number in range(3 * TAGS_MAX):
        running.ingest(batch(number + 1, things(f"S{number}E0")), 0.0)
        settle_next(running, Failure(f"error {number}", "none"))
        [again] = running.take(1, 2.0)
        running.settle(again, done(tag=f"order {number}"), 2.0, 0.001)

    assert len(running.latency) == TAGS_MAX + 1
    assert running.busy.failures[OTHER] == 2 * TAGS_MAX
    assert running.busy.failures["error 0"] == 1
    assert sum(running.busy.failures.values()) == 3 * TAGS_MAX


def test_every_stream_is_counted_once_with_its_events() -> None:
    ours = begin(1, "A0E0", "B0E0", "B0E1", "C0E0", "D0E1", "G0E0", is_dense=True, require_all=True)
    calls = {call.stream: call for call in ours.take(4, 0.0)}
    assert {*calls} == {"A0", "B0", "C0", "G0"}
    ours.settle(calls["A0"], done(), 1.0, 1.0)
    ours.settle(calls["B0"], Failure("ValueError", "broken"), 1.0, 1.0)
    ours.ingest(batch(2, things("C0E1", "C0E2", "F0E0")), 1.0)

    found = ours.count_states()

    assert {state: tuple(each) for state, each in found.items()} == {
        "active": (2, 2),  # C0, G0
        "ready": (1, 3),  # F0; what lies behind C0's call
        "waiting": (1, 2),  # B0
        "gapped": (1, 1),  # D0
        "parked": (0, 0),
        "synced": (1, 0),  # A0
    }


def test_parked_streams_are_counted_with_their_later_events() -> None:
    ours = begin(1, "A0E0", "A0E1", attempts_max=1, exhausted="park")
    [call] = ours.take(1, 0.0)
    ours.settle(call, Failure("ValueError", "broken"), 0.0, 0.0)
    ours.ingest(batch(2, things("A0E2")), 0.0)

    assert ours.count_states()["parked"] == (1, 3)


@dataclass
class Span:
    """Several events that follow each other."""

    stream: str
    index: int
    next: int
    events: int


def test_events_of_spans_are_counted() -> None:
    ours = engine()
    spans = [Span("A", 0, 5, 3), Span("B", 5, 9, 4), Span("B", 9, 20, 2), Span("C", 20, 21, 1)]
    ours.ingest(Batch("t", 21, spans, size=10), 0.0)
    first, second = ours.take(2, 0.0)
    ours.settle(first, Failure("ValueError", "broken"), 0.0, 0.0)

    found = ours.count_states()
    assert second.stream == "B"
    assert {state: tuple(each) for state, each in found.items() if each.streams} == {
        "active": (1, 6),
        "ready": (1, 1),
        "waiting": (1, 3),
    }
