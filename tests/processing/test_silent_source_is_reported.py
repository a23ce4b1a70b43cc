"""A processor whose source does not answer says so, for every source, and ends if its rules say so."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from penstock.client import Client
from penstock.errors import ProcessorUnhealthy, Unavailable
from penstock.processing import FeedSource, InlineProcessor, LocalProcessor, Rules, StreamEvent, SubscriptionSource
from penstock.processing.engine import Health
from penstock.processing.metrics import ProcessorMetrics
from penstock.processing.sources import FileSource, Filtered, IterableSource, MemorySource, PeriodicSource, Position
from penstock.testing.live_hub import LiveHub, live_hub
from tests.failing import has_code
from tests.processing.office import SOON_SECONDS, Office, until

HEALTH = Rules(health=Health(unanswered_seconds_max=300))
ORDERS = "order.placed"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(ORDERS, category="business")
        client.publish(ORDERS, [{"n": number} for number in range(3)])
        yield hub


class Cut(NamedTuple):
    """A source, with functions that cut and mend the way to it."""

    source: Any
    cut: Callable[[], object]
    mend: Callable[[], object]


class Severed(MemorySource):
    """A source whose head cannot be asked for while it is cut off, and of which nothing comes then."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut = False
        self.append("S", [0, 1, 2])

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        if self.is_cut:
            raise Unavailable(reason="it is away")
        return super().behind(positions)

    def read(self, wants: Any, timeout: float) -> Any:
        if self.is_cut:
            raise Unavailable(reason="it is away")
        return super().read(wants, timeout)


def feed(hub: LiveHub, _: threading.Event, __: Path) -> Cut:
    return Cut(FeedSource(hub.url, ORDERS), hub.pause, hub.resume)


def subscription(hub: LiveHub, _: threading.Event, __: Path) -> Cut:
    wanted = {"owning_application": "shop", "event_types": [ORDERS], "read_from": "begin"}
    return Cut(SubscriptionSource(hub.url, wanted), hub.pause, hub.resume)


def iterable(_: LiveHub, go_on: threading.Event, __: Path) -> Cut:
    def batches() -> Iterator[list[StreamEvent]]:
        yield [StreamEvent("S", index, "event", b"0") for index in range(3)]
        assert go_on.wait(SOON_SECONDS)
        yield []
        yield []

    return Cut(IterableSource(batches()), lambda: None, go_on.set)


def periodic(_: LiveHub, go_on: threading.Event, __: Path) -> Cut:
    def crawl() -> Iterator[tuple[str, int]]:
        yield from (("S", number) for number in range(3))
        assert go_on.wait(SOON_SECONDS)
        yield "S", 3

    return Cut(PeriodicSource(crawl, 3600.0), lambda: None, go_on.set)


def own(_: LiveHub, __: threading.Event, ___: Path) -> Cut:
    source = Severed()
    return Cut(Filtered(source), lambda: setattr(source, "is_cut", True), lambda: setattr(source, "is_cut", False))


@pytest.mark.parametrize("make", [feed, subscription, iterable, periodic, own])
def test_seconds_without_an_answer_grow_until_the_source_answers(
    make: Callable[..., Cut], hub: LiveHub, tmp_path: Path
) -> None:
    office, registry, go_on = Office(), CollectorRegistry(), threading.Event()
    source, cut, mend = make(hub, go_on, tmp_path)

    def metric() -> float:
        found = registry.get_sample_value("penstock_source_unanswered_seconds", {"group": "mine"})
        assert found is not None
        return found

    with LocalProcessor(lambda *_: None, source, name="mine", clock=office.clock, stats_interval=None) as running:
        registry.register(ProcessorMetrics(running))
        until(lambda: running.snapshot.handled >= 3 or make is periodic, running)
        cut()
        try:
            office.pass_seconds(100.0)  # An answer that was under way may have come.
            until(lambda: running.snapshot.taken and metric() >= 0, running)
            office.pass_seconds(200.0)
            until(lambda: metric() >= 200, running)
        finally:
            mend()
        office.pass_seconds(60.0)  # The pause after a failure is over.
        until(lambda: metric() < 100, running)


@pytest.mark.parametrize("source", ["memory", "files"])
def test_source_without_new_events_counts_as_answering(source: str, tmp_path: Path) -> None:
    file = tmp_path / "orders.ndjson"
    file.write_text('{"id": "S"}\n' * 3)
    office = Office()
    given = FileSource(file, stream=["id"]) if source == "files" else Severed()
    with LocalProcessor(lambda *_: None, given, clock=office.clock, stats_interval=None, rules=HEALTH) as running:
        for _ in range(3):
            running.wait_until_caught_up(SOON_SECONDS)
            until(lambda: running.snapshot.gap == 0, running)
            office.pass_seconds(200.0)
            now = time.monotonic()
            until(lambda: running.snapshot.taken >= now and (running.snapshot.unanswered_seconds or 0) < 100, running)  # noqa: B023


def test_processor_ends_when_its_source_is_silent_for_longer_than_it_may() -> None:
    office, source = Office(), Severed()
    running = LocalProcessor(lambda *_: None, source, clock=office.clock, stats_interval=None, rules=HEALTH).start()
    running.wait_until_caught_up(SOON_SECONDS)
    source.is_cut = True
    office.pass_seconds(250.0)
    office.pass_seconds(250.0)
    until(lambda: running.wait(0.0), running)
    with pytest.raises(
        ProcessorUnhealthy,
        check=has_code("source-silent"),
        match=r"the source has not answered for \d+ s; health.unanswered_seconds_max is 300",
    ):
        running.stop()


def test_inline_processor_keeps_the_last_known_head_and_ends_likewise() -> None:
    source = Severed()
    running = InlineProcessor(lambda *_: None, source, rules=HEALTH)
    assert running.snapshot.gap is None
    running.drain()
    source.append("S", [3, 4])
    assert running.snapshot.gap == 2
    source.is_cut = True
    running.advance(299)
    assert (running.snapshot.gap, running.snapshot.unanswered_seconds) == (2, 299)
    with pytest.raises(Unavailable):
        running.step()
    running.advance(2)
    with pytest.raises(ProcessorUnhealthy, check=has_code("source-silent")):
        running.step()
    source.is_cut = False
    running.drain()
    assert (running.snapshot.gap, running.snapshot.unanswered_seconds) == (0, 0)
