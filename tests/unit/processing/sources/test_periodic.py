"""Periodic sources: whole traversals, numbered from the time of their start."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import BadParameter, EventsLost, Unavailable
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine.rules import Backoff, Rules
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.sources.periodic import CHUNK, TRAVERSED_MAX, PeriodicSource
from penstock.processing.sources.source import ReadRequest
from tests.failing import has_code


class World:
    """Items to crawl, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.items: list[Any] = [("S1", {"n": 1}), ("S2", {"n": 2}, "seen")]
        self.fails_after: int | None = None
        self.crawls = 0

    def crawl(self) -> Iterator[Any]:
        self.crawls += 1
        for number, item in enumerate(self.items):
            if number == self.fails_after:
                raise Unavailable(reason="the service is away")
            yield item

    def source(self, interval: float = 60) -> PeriodicSource:
        return PeriodicSource(self.crawl, interval, clock=lambda: self.now, elapsed=lambda: self.now)


class Seen:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.is_broken = False

    def __call__(self, _: str, events: Any) -> None:
        if self.is_broken:
            raise ValueError("broken")
        self.events += events


@pytest.fixture
def world() -> World:
    return World()


def test_traversal_is_numbered_from_its_start_and_its_end_moves_the_position(world: World) -> None:
    seen, checkpoints, source = Seen(), MemoryCheckpoints(), world.source()
    running = InlineProcessor(seen, source, checkpoints=checkpoints)
    running.drain()

    first = 1_000 * TRAVERSED_MAX
    assert [(event.stream, event.index, event.kind, event.data) for event in seen.events] == [
        ("S1", first, "event", {"n": 1}), ("S2", first + 1, "seen", {"n": 2}),
    ]  # fmt: skip
    assert checkpoints.positions() == {"0": first + 2}
    assert source.behind({"0": first + 2}) == {"0": 0}

    world.now += 59
    running.drain()
    assert world.crawls == 1
    world.now += 1
    running.drain()
    assert [event.index for event in seen.events[2:]] == [1_060 * TRAVERSED_MAX, 1_060 * TRAVERSED_MAX + 1]


def test_restarted_source_waits_until_the_next_traversal_is_due(world: World) -> None:
    checkpoints = MemoryCheckpoints()
    InlineProcessor(Seen(), world.source(), checkpoints=checkpoints).drain()
    world.now += 30
    again, source = Seen(), world.source(60.0)
    running = InlineProcessor(again, source, checkpoints=checkpoints)
    running.drain()
    assert (world.crawls, source.behind(checkpoints.positions())) == (1, {"0": 0})  # type: ignore[arg-type]
    world.now += 30
    running.drain()
    assert len(again.events) == 2


def test_only_the_end_of_a_traversal_moves_the_position(world: World) -> None:
    world.items = [(f"S{number}", {}) for number in range(2 * CHUNK + 5)]
    source = world.source()
    ends, position = [], source.beginning("0")
    for _ in range(3):
        [batch] = source.read({"0": ReadRequest(position, 1)}, 0.0)
        position = batch.end
        ends.append((len(batch.items), batch.end, batch.is_tail))

    assert ends == [(CHUNK, 0, False), (CHUNK, 0, False), (5, 1_000 * TRAVERSED_MAX + 2 * CHUNK + 5, True)]


def test_closed_source_hands_on_no_more_of_a_traversal(world: World) -> None:
    world.items = [(f"S{number}", {}) for number in range(2 * CHUNK)]
    source = world.source()
    [batch] = source.read({"0": ReadRequest(0, 1)}, 0.0)
    source.close()

    assert source.read({"0": ReadRequest(batch.end, 1)}, 0.0) == []


@pytest.mark.parametrize("handed_on", [1, 2])
def test_restart_within_a_traversal_yields_a_whole_traversal(world: World, handed_on: int) -> None:
    world.items = [(f"S{number}", {}) for number in range(2 * CHUNK + 5)]
    source, checkpoints = world.source(), MemoryCheckpoints()
    position, before = source.beginning("0"), list[int]()
    for _ in range(handed_on):
        [batch] = source.read({"0": ReadRequest(position, 1)}, 0.0)
        position, before = batch.end, [*before, *(item.index for item in batch.items)]

    seen = Seen()
    InlineProcessor(seen, source, checkpoints=checkpoints).drain()
    assert [event.stream for event in seen.events] == [f"S{number}" for number in range(2 * CHUNK + 5)]
    assert seen.events[0].index > before[-1], "what comes later has larger indices"
    assert checkpoints.positions() == {"0": seen.events[-1].index + 1}


def test_items_under_way_at_a_restart_are_not_handed_on(world: World) -> None:
    goes_on = threading.Event()

    def crawl() -> Iterator[Any]:
        world.crawls += 1
        yield from ((f"old-{number}", {}) for number in range(CHUNK)) if world.crawls == 1 else [("new", {})]
        if world.crawls == 1:
            goes_on.wait(300)
            yield "late", {}

    source = PeriodicSource(crawl, 60, clock=lambda: world.now, elapsed=lambda: world.now)
    [first] = source.read({"0": ReadRequest(0, 1)}, 0.0)
    assert source.read({"0": ReadRequest(first.end, 1)}, 0.01) == [], "the crawl is busy"
    [again] = source.read({"0": ReadRequest(0, 1)}, 0.0)
    goes_on.set()
    assert [item.stream for item in again.items] == ["new"]
    assert source.read({"0": ReadRequest(again.end, 1)}, 0.01) == []


def test_processes_started_within_a_second_have_their_own_indices(world: World) -> None:
    one = world.source()
    [first] = one.read({"0": ReadRequest(0, 1)}, 0.0)
    world.now += 0.001
    another = world.source()
    [second] = another.read({"0": ReadRequest(0, 1)}, 0.0)
    assert second.items[0].index > first.items[-1].index


def test_failed_traversal_begins_again_with_larger_indices(world: World) -> None:
    world.items = [("S1", number) for number in range(CHUNK + 10)]
    world.fails_after = CHUNK + 5
    seen, checkpoints = Seen(), MemoryCheckpoints()
    running = InlineProcessor(seen, world.source(), checkpoints=checkpoints)
    with pytest.raises(Unavailable):
        running.drain()
    assert checkpoints.positions() == {"0": 0}
    before = len(seen.events)

    world.fails_after = None
    world.now += 1
    running.drain()
    indices = [event.index for event in seen.events]
    assert indices == sorted(set(indices))
    assert [event.data for event in seen.events[before:]] == list(range(CHUNK + 10)), "all of it comes again"
    assert checkpoints.positions() == {"0": 1_001 * TRAVERSED_MAX + CHUNK + 10}


def test_unhandled_traversal_comes_again_after_a_restart(world: World) -> None:
    seen, checkpoints = Seen(), MemoryCheckpoints()
    seen.is_broken = True
    InlineProcessor(seen, world.source(), checkpoints=checkpoints).drain()
    assert checkpoints.positions() == {"0": 0}

    seen.is_broken = False
    world.now += 1
    InlineProcessor(
        seen, world.source(), checkpoints=checkpoints, rules=Rules(backoff=Backoff(first_seconds=1))
    ).drain()
    assert [event.stream for event in seen.events] == ["S1", "S2"]
    assert checkpoints.positions() == {"0": 1_001 * TRAVERSED_MAX + 2}


def test_traversal_may_be_empty(world: World) -> None:
    world.items, checkpoints = [], MemoryCheckpoints()
    running = InlineProcessor(Seen(), world.source(), checkpoints=checkpoints)
    running.drain()
    assert (world.crawls, checkpoints.positions()) == (1, {"0": 1_000 * TRAVERSED_MAX})
    running.drain()
    assert world.crawls == 1


def test_impossible_periodic_source_is_refused(world: World) -> None:
    with pytest.raises(BadParameter, match=r"interval is 0\.5; allowed: 1 second or more"):
        world.source(0.5)
    world.items = ["S1"]
    with pytest.raises(BadParameter, match="allowed: tuples"):
        InlineProcessor(Seen(), world.source()).drain()
    with pytest.raises(BadParameter, match="crawl is 'NoneType, returned'; allowed: a function that returns an iter"):
        InlineProcessor(Seen(), PeriodicSource(lambda: None, 60)).drain()  # type: ignore[arg-type, return-value]
    with pytest.raises(EventsLost, check=has_code("not-replayable")):
        world.source().reread("0", ReadRequest(0, 1))


class Shop:
    """Two things to crawl by intervals of their own, with a clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.orders: Any = lambda: [("O1", {}), ("O2", {})]

    def source(self) -> PeriodicSource:
        crawls = {"customers": lambda: [("C1", {})], "orders": self.orders}
        intervals = {"customers": 60, "orders": 3600}
        return PeriodicSource(crawls, intervals, clock=lambda: self.now, elapsed=lambda: self.now)


def test_each_tranche_is_traversed_by_its_own_interval_and_resumed_there() -> None:
    shop, checkpoints, seen = Shop(), MemoryCheckpoints(), Seen()

    def streams_at(now: float) -> list[tuple[str, str]]:
        shop.now, seen.events = now, []
        InlineProcessor(seen, shop.source(), checkpoints=checkpoints).drain()
        return sorted((event.tranche, event.stream) for event in seen.events)

    orders, customers = [("orders", "O1"), ("orders", "O2")], [("customers", "C1")]
    assert streams_at(1_000) == customers + orders
    assert streams_at(1_059) == []
    assert streams_at(1_060) == customers
    assert streams_at(4_599) == customers
    assert streams_at(4_600) == orders
    source = shop.source()
    source.read({name: ReadRequest(at, 1) for name, at in checkpoints.positions().items()}, 0.01)
    assert source.behind(checkpoints.positions()) == {"customers": 0, "orders": 0}


def test_busy_traversal_does_not_hold_another_tranche() -> None:
    shop, goes_on = Shop(), threading.Event()

    def crawl_slowly() -> Iterator[Any]:
        goes_on.wait(300)
        yield "O1", {}

    shop.orders = crawl_slowly
    source = shop.source()
    wants = {name: ReadRequest(0, 10) for name in source.tranches()}
    [first] = source.read(wants, 300.0)
    wants[first.tranche] = ReadRequest(first.end, 10)
    assert (first.tranche, source.read(wants, 0.01)) == ("customers", [])
    goes_on.set()
    [second] = source.read(wants, 300.0)
    assert [item.stream for item in second.items] == ["O1"]


def test_failing_traversal_is_reported_after_the_batches_of_others() -> None:
    shop = Shop()

    is_open = threading.Event()

    def crawl_when_open() -> Iterator[Any]:
        if not is_open.is_set():
            raise Unavailable(reason="the shop is closed")
        yield "O1", {}

    shop.orders = crawl_when_open
    source = shop.source()
    wants = {name: ReadRequest(0, 10) for name in source.tranches()}
    [first] = source.read(wants, 0.0)
    wants["customers"] = ReadRequest(first.end, 10)
    with pytest.raises(Unavailable, match="the shop is closed"):
        source.read(wants, 0.0)
    is_open.set()
    [second] = source.read(wants, 0.0)
    assert [item.stream for item in second.items] == ["O1"]


@pytest.mark.parametrize(
    ("crawl", "interval", "said"),
    [
        ({}, 60, "crawl is {}; allowed: a function, or functions by tranche"),
        ({"a": list, "b": list}, {"a": 60}, "interval is {'a': 60}; allowed: one for each of a, b"),
        ({"a": list}, {"a": 0}, "interval is 0; allowed: 1 second or more, for all tranches or for each"),
        ({"a": 7}, 60, "crawl is 7"),
        (list, {"0": 60}, "interval is {'0': 60}; allowed: seconds: there is one tranche"),
    ],
)
def test_wrong_tranche_of_a_periodic_source_is_refused(crawl: Any, interval: Any, said: str) -> None:
    with pytest.raises(BadParameter) as caught:
        PeriodicSource(crawl, interval)
    assert said in str(caught.value)
