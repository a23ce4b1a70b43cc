"""Statistics of handlers: counters, gauges and histograms under names of their domain."""

import json
import pickle
from functools import partial
from random import Random
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.handlers import by_kind
from penstock.processing.outcomes import Failure, done, done_to, retry, skip_to
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.memory import MemorySource
from penstock.processing.stats import NAMES_MAX, OTHERS, Observations, Stats
from penstock.processing.stream_event import StreamEvent
from tests.unit.processing.engine.items import Thing, batch, engine, settle_next


def observed(*values: float) -> Observations:
    found = Observations()
    for each in values:
        found.add(each)
    return found


def test_buckets_count_values_up_to_each_bound_which_belongs_to_them() -> None:
    chance = Random(7)
    values = [0.0, 0.3, 1, 2, 4, 1024, 1025, 2**31, *(10 ** chance.uniform(-4, 9) for _ in range(3_000))]

    buckets = observed(*values).distribution().buckets()

    assert [bound for bound, _ in buckets] == [2.0**power for power in range(-10, 31)]
    assert [count for _, count in buckets] == [sum(value <= bound for value in values) for bound, _ in buckets]


def test_percentile_is_right_within_a_few_percent() -> None:
    chance = Random(7)
    values = sorted(10 ** chance.uniform(-3, 6) for _ in range(10_000))
    found = observed(*values).distribution()
    for share in (0.1, 0.5, 0.99):
        assert found.percentile(share) == pytest.approx(values[int(share * len(values))], rel=0.06)


@pytest.mark.parametrize("say", [done, partial(done_to, 9), partial(skip_to, 9)], ids=["done", "done_to", "skip_to"])
def test_statistics_of_calls_are_added_up_and_gauges_are_replaced(say: Any) -> None:
    running = engine()
    for at in range(3):
        stats = Stats()
        stats.count("mails", 2)
        stats.observe("eur", at, 10.0)
        stats.set("queue", 5 - at)
        running.ingest(batch(at + 1, [Thing(f"S{at}", at)]), 0.0)
        settle_next(running, say(stats=stats, mails=1))

    assert running.counts == {"mails": 9}
    assert running.stats.gauges == {"queue": 3.0}
    found = running.stats.observed["eur"]
    assert (found.count, found.sum) == (6, 33.0)


def test_retry_tells_its_statistics_and_a_failure_tells_none() -> None:
    running = engine()
    running.ingest(batch(2, [Thing("S1", 0), Thing("S2", 1)]), 0.0)
    stats = Stats()
    stats.set("queue", 1)
    settle_next(running, retry(1, stats=stats))
    settle_next(running, Failure("ValueError", "broken"))

    assert (running.stats.gauges, running.counts, running.stats.observed) == ({"queue": 1.0}, {}, {})


def test_handler_by_kind_keeps_the_statistics_of_each_run() -> None:
    def paid(_: str, events: list[StreamEvent]) -> Any:
        stats = Stats()
        stats.observe("run", len(events))
        return done(stats=stats, paid=len(events))

    source = MemorySource()
    source.deliver([StreamEvent("S1", at, kind, b"{}") for at, kind in enumerate(("paid", "sent", "paid", "paid"))])
    processor = InlineProcessor(by_kind({"paid": paid}, otherwise=lambda _stream, _events: done(tag="left")), source)
    processor.drain(advance=True)

    assert processor.engine.counts == {"paid": 3}
    assert processor.engine.stats.observed["run"].count == 2


def test_number_of_gauges_and_histograms_is_limited() -> None:
    kept = Stats()
    for at in range(NAMES_MAX + 5):
        told = Stats()
        told.set(f"gauge {at}", at)
        told.observe(f"histogram {at}", at)
        kept.merge(None, told)

    assert len(kept.gauges) == NAMES_MAX
    assert len(kept.observed) == NAMES_MAX + 1
    assert kept.observed[OTHERS].count == 5
    assert kept.gauges["gauge 0"] == 0


def test_statistics_survive_json_and_pickling() -> None:
    stats = Stats()
    stats.count("größe", 2**70)
    stats.observe("eur", 0, 17.5, 2.0**45)
    stats.set("queue", -0.5)

    assert Stats.from_json(json.loads(json.dumps(stats.to_json()))) == stats
    assert pickle.loads(pickle.dumps(done(stats=stats))) == done(stats=stats)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("count", ("", 1)),
        ("count", ("mails", -1)),
        ("count", ("mails", 1.0)),
        ("count", ("mails", True)),
        ("observe", ("\n", 1)),
        ("observe", ("eur", -1)),
        ("observe", ("eur", float("nan"))),
        ("observe", ("eur", float("inf"))),
        ("observe", ("eur", "17")),
        ("set", (None, 1)),
        ("set", ("queue", float("nan"))),
        ("set", ("queue", None)),
    ],
)
def test_wrong_name_or_value_is_refused_and_nothing_is_kept(name: str, arguments: tuple[Any, ...]) -> None:
    stats = Stats()
    with pytest.raises(BadParameter):
        getattr(stats, name)(*arguments)
    assert stats == Stats()


def test_outcome_takes_no_other_object_as_statistics() -> None:
    with pytest.raises(BadParameter, match="stats"):
        done(stats=3)  # type: ignore[arg-type]
