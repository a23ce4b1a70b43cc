import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.errors import BadParameter, NotReplayable, Unavailable
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.rules import Rules
from penstock.processing.runners.inline import Inline
from penstock.processing.runners.local import Local
from penstock.processing.sources.iterable import IterableSource
from penstock.processing.sources.source import Want
from penstock.processing.stream_event import StreamEvent


def event(number: int) -> StreamEvent:
    return StreamEvent(f"S{number % 3}", number, "event", b"{}")


def batches(count: int) -> Iterator[list[StreamEvent]]:
    return ([event(number), event(number + 1)] for number in range(0, count, 2))


class Seen:
    def __init__(self) -> None:
        self.indices: list[int] = []

    def __call__(self, _: str, events: Any) -> None:
        self.indices += [event.index for event in events]


def test_all_batches_are_handled_and_the_end_is_told() -> None:
    seen, checkpoints, source = Seen(), MemoryCheckpoints(), IterableSource(batches(20))
    assert source.behind({}) == {"0": None}

    Inline(seen, source, checkpoints=checkpoints).drain()

    assert sorted(seen.indices) == list(range(20))
    assert checkpoints.positions() == {"0": 10}
    assert source.behind({"0": 10}) == {"0": 0}
    assert source.behind({"0": 9}) == {"0": None}, "it is read, but not handled"
    [tail] = source.read({"0": Want(10, 1)}, 0.0)
    assert (tail.items, tail.end, tail.is_tail) == ([], 10, True)


def test_a_processor_passes_over_what_it_has_handled() -> None:
    checkpoints = MemoryCheckpoints()
    first, again = Seen(), Seen()
    Inline(first, IterableSource(batches(6)), checkpoints=checkpoints).drain()
    Inline(again, IterableSource(batches(10)), checkpoints=checkpoints).drain()

    assert sorted(again.indices) == [6, 7, 8, 9]


def test_one_that_ends_before_a_position_is_another_and_refused() -> None:
    checkpoints = MemoryCheckpoints()
    Inline(Seen(), IterableSource(batches(6)), checkpoints=checkpoints).drain()
    with pytest.raises(BadParameter, match="batches is '2 batches'; allowed: as many as were handled, 3 at least"):
        Inline(Seen(), IterableSource(batches(4)), checkpoints=checkpoints).drain()


def test_an_index_that_comes_again_is_passed_over_whatever_its_event_has() -> None:
    found: list[Any] = []
    given = [
        [StreamEvent("S", 1, "event", b"1"), StreamEvent("S", 1, "event", b"2"), StreamEvent("S", 2, "event", b"3")]
    ]
    Inline(lambda _, events: found.extend(event.data for event in events), IterableSource(given)).drain()
    assert found == [1, 3]


def test_it_is_read_no_further_than_there_is_room() -> None:
    read: list[int] = []

    def given() -> Iterator[list[StreamEvent]]:
        for number in range(1_000):
            read.append(number)
            yield [event(number)]

    def broken(stream: str, events: Any) -> None:
        raise ValueError("broken")

    source = IterableSource(given())
    Inline(broken, source, rules=Rules(batches_ahead=5)).drain()
    assert len(read) == 5
    source.close()


def test_it_is_read_once() -> None:
    source = IterableSource(batches(4))
    source.read({"0": Want(0, 1)}, 0.0)
    with pytest.raises(NotReplayable, match="IterableSource gives its events once"):
        source.read({"0": Want(0, 1)}, 0.0)
    with pytest.raises(NotReplayable):
        source.reread("0", Want(0, 1))
    with pytest.raises(BadParameter, match="the source gives its events once"):
        Inline(Seen(), IterableSource([]), rules=Rules(exhausted="park", attempts_max=1))
    with pytest.raises(BadParameter, match="batches is 'dict'; allowed: an iterable of lists of events"):
        IterableSource({})


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
def test_what_are_no_batches_of_events_is_named(batches: Any, told: str) -> None:
    with pytest.raises(BadParameter, match=f"batches is .{told}.*; allowed: .*lists? of events"):
        Inline(lambda *_: None, IterableSource(batches)).drain()


def test_an_iterable_that_fails_has_not_come_to_its_end() -> None:
    def given() -> Iterator[list[StreamEvent]]:
        yield [event(0)]
        raise Unavailable(reason="the database is away")

    source = IterableSource(given())
    assert len(source.read({"0": Want(0, 1)}, 0.0)) == 1
    for _ in range(3):
        with pytest.raises(Unavailable, match="the database is away"):
            source.read({"0": Want(1, 1)}, 0.0)
    assert source.behind({"0": 1}) == {"0": None}


def test_one_that_blocks_holds_no_processor_up_that_is_to_stop() -> None:
    over, came = threading.Event(), threading.Event()

    def given() -> Iterator[list[StreamEvent]]:
        yield [event(0)]
        over.wait(30)

    with Local(lambda *_: came.set(), IterableSource(given())):
        assert came.wait(300)
    over.set()


def test_a_processor_catches_up_with_its_end() -> None:
    seen = Seen()
    with Local(seen, IterableSource(batches(1_000))) as running:
        running.wait_until_caught_up(300)
    assert sorted(seen.indices) == list(range(1_000))
