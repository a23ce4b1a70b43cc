"""Iterable sources, which are pulled in a thread of their own, and sources in memory."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter, EventsLost, Unavailable
from penstock.processing import FeedSource
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import InlineProcessor
from penstock.processing.runners.local import LocalProcessor
from penstock.processing.sources import FileSource, Filtered, PeriodicSource
from penstock.processing.sources.iterable import IterableSource
from penstock.processing.sources.memory import MemorySource
from penstock.processing.sources.source import Puller, ReadRequest
from penstock.processing.stream_event import StreamEvent
from tests.failing import has_code


def test_each_append_is_a_batch_and_events_of_a_stream_are_numbered_on() -> None:
    source = MemorySource()
    source.append("S1", [{"n": 1}, {"n": 2}])
    source.append("S1", [{"n": 3}], kind="other")

    [first] = source.read({"0": ReadRequest(0, 1)}, 0.0)
    [second] = source.read({"0": ReadRequest(first.end, 1)}, 0.0)

    assert [(event.index, event.data, event.kind) for event in (*first.items, *second.items)] == [  # type: ignore[attr-defined]
        (0, {"n": 1}, "event"), (1, {"n": 2}, "event"), (2, {"n": 3}, "other"),
    ]  # fmt: skip
    assert (first.is_tail, second.is_tail) == (False, True)
    assert source.read({"0": ReadRequest(second.end, 1)}, 0.0) == []


def test_slow_value_is_awaited_for_a_limited_time_and_comes_with_a_later_call() -> None:
    ready, calls = threading.Event(), []

    def pull() -> int:
        ready.wait(300)
        calls.append(threading.current_thread())
        return len(calls)

    pulling = Puller(pull)
    assert pulling.take(0.01) is None
    assert pulling.take(0.01) is None
    ready.set()
    assert pulling.take(300) == 1, "it was called once"
    assert pulling.take(0.0) == 2, "to wait for nothing is to wait until it comes"
    pulling.close()
    assert threading.current_thread() not in calls


def test_waiter_is_woken_by_close() -> None:
    found: list[object] = []
    blocked, is_called = threading.Event(), threading.Event()

    def pull() -> int:
        is_called.set()
        blocked.wait(300)
        return 1

    pulling = Puller(pull)
    waiting = threading.Thread(target=lambda: found.append(pulling.take(0.0)))
    waiting.start()
    is_called.wait(300)
    pulling.close()
    waiting.join(300)
    blocked.set()
    assert found == [None]
    assert pulling.take(0.0) is None


def event(number: int) -> StreamEvent:
    return StreamEvent(f"S{number % 3}", number, "event", b"{}")


def batches(count: int) -> Iterator[list[StreamEvent]]:
    return ([event(number), event(number + 1)] for number in range(0, count, 2))


class Seen:
    def __init__(self) -> None:
        self.indices: list[int] = []

    def __call__(self, _: str, events: Any) -> None:
        self.indices += [event.index for event in events]


def test_all_batches_are_handled_and_the_end_is_reported() -> None:
    seen, checkpoints, source = Seen(), MemoryCheckpoints(), IterableSource(batches(20))
    assert source.behind({}) == {"0": None}

    InlineProcessor(seen, source, checkpoints=checkpoints).drain()

    assert sorted(seen.indices) == list(range(20))
    assert checkpoints.positions() == {"0": 10}
    assert source.behind({"0": 10}) == {"0": 0}
    assert source.behind({"0": 9}) == {"0": None}, "it is read, but not handled"
    [tail] = source.read({"0": ReadRequest(10, 1)}, 0.0)
    assert (tail.items, tail.end, tail.is_tail) == ([], 10, True)


def test_restarted_processor_passes_over_handled_events() -> None:
    checkpoints = MemoryCheckpoints()
    first, again = Seen(), Seen()
    InlineProcessor(first, IterableSource(batches(6)), checkpoints=checkpoints).drain()
    InlineProcessor(again, IterableSource(batches(10)), checkpoints=checkpoints).drain()

    assert sorted(again.indices) == [6, 7, 8, 9]


def test_iterable_that_ends_before_its_position_is_refused() -> None:
    checkpoints = MemoryCheckpoints()
    InlineProcessor(Seen(), IterableSource(batches(6)), checkpoints=checkpoints).drain()
    with pytest.raises(BadParameter, match="batches is '2 batches'; allowed: as many as were handled, 3 at least"):
        InlineProcessor(Seen(), IterableSource(batches(4)), checkpoints=checkpoints).drain()


def test_repeated_index_is_passed_over_whatever_its_event_has() -> None:
    found: list[Any] = []
    given = [
        [StreamEvent("S", 1, "event", b"1"), StreamEvent("S", 1, "event", b"2"), StreamEvent("S", 2, "event", b"3")]
    ]
    InlineProcessor(lambda _, events: found.extend(event.data for event in events), IterableSource(given)).drain()
    assert found == [1, 3]


def test_iterable_is_read_no_further_than_there_is_room() -> None:
    read: list[int] = []

    def given() -> Iterator[list[StreamEvent]]:
        for number in range(1_000):
            read.append(number)
            yield [event(number)]

    def broken(stream: str, events: Any) -> None:
        raise ValueError("broken")

    source = IterableSource(given())
    InlineProcessor(broken, source, rules=Rules(batches_ahead=5)).drain()
    assert len(read) == 5
    source.close()


def test_iterable_is_read_once() -> None:
    source = IterableSource(batches(4))
    source.read({"0": ReadRequest(0, 1)}, 0.0)
    with pytest.raises(EventsLost, check=has_code("not-replayable"), match="IterableSource delivers its events once"):
        source.read({"0": ReadRequest(0, 1)}, 0.0)
    with pytest.raises(EventsLost, check=has_code("not-replayable")):
        source.reread("0", ReadRequest(0, 1))
    with pytest.raises(BadParameter, match="the source gives its events once"):
        InlineProcessor(Seen(), IterableSource([]), rules=Rules(exhausted="park", attempts_max=1))


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([1], "int in place of events"),
        ([[event(0), 1]], "int in place of events"),
        ([["a"]], "str in place of events"),
        (["ab"], "str in place of events"),
        ([None], "NoneType in place of events"),
        ([[StreamEvent("S1", "0", "e", b"{}")]], "StreamEvent with stream 'S1' and index '0'"),  # type: ignore[arg-type]
        ([[StreamEvent("S1", True, "e", b"{}")]], "StreamEvent with stream 'S1' and index True"),
        ([[StreamEvent(5, 0, "e", b"{}")]], "StreamEvent with stream 5 and index 0"),  # type: ignore[arg-type]
    ],
)
def test_malformed_batches_are_named(batches: Any, told: str) -> None:
    with pytest.raises(BadParameter, match=f"batches is .{told}.*; allowed: .*lists? of events"):
        InlineProcessor(lambda *_: None, IterableSource(batches)).drain()


def test_failed_iterable_has_not_come_to_its_end() -> None:
    def given() -> Iterator[list[StreamEvent]]:
        yield [event(0)]
        raise Unavailable(reason="the database is away")

    source = IterableSource(given())
    assert len(source.read({"0": ReadRequest(0, 1)}, 0.0)) == 1
    for _ in range(3):
        with pytest.raises(Unavailable, match="the database is away"):
            source.read({"0": ReadRequest(1, 1)}, 0.0)
    assert source.behind({"0": 1}) == {"0": None}


def test_blocking_iterable_does_not_delay_the_stop() -> None:
    over, came = threading.Event(), threading.Event()

    def given() -> Iterator[list[StreamEvent]]:
        yield [event(0)]
        over.wait(300)

    with LocalProcessor(lambda *_: came.set(), IterableSource(given())):
        assert came.wait(300)
    over.set()


def test_processor_catches_up_with_the_end() -> None:
    seen = Seen()
    with LocalProcessor(seen, IterableSource(batches(1_000))) as running:
        running.wait_until_caught_up(300)
    assert sorted(seen.indices) == list(range(1_000))


@pytest.mark.parametrize(
    "source",
    [
        lambda path: FileSource(path, stream=["k"]),
        lambda _: IterableSource([]),
        lambda _: PeriodicSource(list, 60),
        lambda _: FeedSource("http://localhost:1", "order.placed"),
        lambda _: Filtered(IterableSource([])),
    ],
    ids=["file", "iterable", "periodic", "feed", "filtered"],
)
def test_closed_source_is_refused_by_every_runner(source: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text("")
    made = source(f"{path}")
    for runner in (InlineProcessor, LocalProcessor):
        runner(lambda *_: None, made)
    made.close()

    for runner in (InlineProcessor, LocalProcessor):
        with pytest.raises(BadParameter, match=r"source is 'a (\w+Source|Filtered)'; allowed: one that is not closed"):
            runner(lambda *_: None, made)
