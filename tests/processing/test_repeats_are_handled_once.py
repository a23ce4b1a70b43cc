"""S1E0, S1E1, S1E2, S1E1, S1E3: the repeat is handed to no handler, and writes no row in a projection."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from penstock.processing import InlineProcessor, LocalProcessor, StreamEvent
from penstock.processing.checkpoints.checkpoint import MemoryCheckpoints
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.database import connector
from penstock.processing.projections.projection import Projection
from penstock.processing.sources import MemorySource

SEQUENCE = (0, 1, 2, 1, 3)
AMOUNTS = {0: 1, 1: 10, 2: 100, 3: 1000}
SECONDS_MAX = 300.0
RUNNERS = pytest.mark.parametrize("runner", ["inline", "local"])


def event(index: int) -> StreamEvent:
    return StreamEvent("S1", index, "booked", b'{"amount": %d}' % AMOUNTS[index])


@contextmanager
def caught_up(processor: InlineProcessor | LocalProcessor) -> Iterator[Callable[[], None]]:
    """Run a processor as long as the block; give what has it handle all that there is."""
    if isinstance(processor, InlineProcessor):
        yield processor.drain
        return
    with processor:
        yield lambda: processor.wait_until_caught_up(SECONDS_MAX)


class Seen:
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[list[int]] = []

    def __call__(self, _: str, events: Sequence[Any]) -> None:
        self.spans.append([event.index for event in events])

    @property
    def indices(self) -> list[int]:
        return [index for span in self.spans for index in span]


def processor(
    runner: str, handler: Any, source: MemorySource, checkpoints: MemoryCheckpoints
) -> InlineProcessor | LocalProcessor:
    if runner == "inline":
        return InlineProcessor(handler, source, checkpoints=checkpoints)
    return LocalProcessor(handler, source, checkpoints=checkpoints, commit_interval=0.01)


@RUNNERS
@pytest.mark.parametrize("cuts", [(5,), (4, 1), (2, 3), (1, 1, 1, 1, 1)], ids=str)
def test_repeat_is_dropped_in_any_division_into_batches(runner: str, cuts: tuple[int, ...]) -> None:
    source, seen, checkpoints = MemorySource(), Seen(), MemoryCheckpoints()
    left = list(SEQUENCE)
    for count in cuts:
        source.deliver([event(left.pop(0)) for _ in range(count)])
    made = processor(runner, seen, source, checkpoints)
    with caught_up(made) as catch_up:
        catch_up()
    assert seen.indices == [0, 1, 2, 3]
    assert made.engine.repeats == 1
    assert checkpoints.positions() == {"0": len(cuts)}


def test_repeat_that_arrives_during_the_call_is_dropped() -> None:
    source, seen, checkpoints = MemorySource(), Seen(), MemoryCheckpoints()
    begun, read = threading.Event(), threading.Event()

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "S2":  # What lies behind the repeat is handled: that was taken in.
            read.set()
            return
        if events[0].index == 1:
            begun.set()
            assert read.wait(SECONDS_MAX)
        seen(stream, events)

    with LocalProcessor(handle, source, checkpoints=checkpoints, commit_interval=0.01) as running:
        source.deliver([event(0)])
        running.wait_until_caught_up(SECONDS_MAX)
        source.deliver([event(1)])
        assert begun.wait(SECONDS_MAX)
        source.deliver([event(2), event(1), event(3), StreamEvent("S2", 0, "other", b"{}")])
        running.wait_until_caught_up(SECONDS_MAX)
    assert seen.spans == [[0], [1], [2, 3]]


@dataclass
class Balance:
    total: int = 0
    entries: int = 0


class Ledger:
    """A projection into a database, what reaches its fold, and which rows were written."""

    def __init__(self, url: str, runner: str) -> None:
        self.url = url
        self.runner = runner
        self.source = MemorySource()
        self.evolved: list[int] = []
        """What was folded in."""
        self.reached: list[int] = []
        """What has come to the fold, whether it was new to the row or not."""
        self.made().inline(self.source, url)  # The table is there from then on.
        self._is_sqlite = url.startswith("sqlite")
        if self._is_sqlite:
            self._count_writes()

    def made(self) -> Projection[Balance]:
        """Return the projection as a process has it that has just begun: it remembers no row."""
        made = Projection("balances", Balance, self._evolve, key=by_stream)
        fold = made.fold

        def spied(row: Any, line: str, entries: Sequence[Any]) -> Any:
            self.reached += [entry.index for entry in entries]
            return fold(row, line, entries)

        made.fold = spied  # type: ignore[assignment]
        return made

    def processor(self) -> InlineProcessor | LocalProcessor:
        """Return a processor that begins where the checkpoint is."""
        made = self.made()
        return made.inline(self.source, self.url) if self.runner == "inline" else made.local(self.source, self.url)

    def written(self) -> Any:
        """Return what is another whenever a row is written, with the same contents or others."""
        if self._is_sqlite:
            return self.rows("SELECT count(*) FROM writes")
        return self.rows("SELECT key, xmin::text, ctid::text FROM balances_v1 ORDER BY key")

    def balances(self) -> list[tuple[Any, ...]]:
        """Return the rows, and up to where each is folded."""
        return self.rows("SELECT key, total, entries, penstock_position FROM balances_v1 ORDER BY key")

    def checkpoint(self) -> DatabaseCheckpoints:
        """The projection's own."""
        return DatabaseCheckpoints(self.url, "balances_v1")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with closing(self._opened()) as connection:
            return list(connection.execute(query).fetchall())

    def _evolve(self, balance: Balance, each: StreamEvent) -> Balance:
        self.evolved.append(each.index)
        return Balance(balance.total + each.data["amount"], balance.entries + 1)

    def _opened(self) -> Any:
        return connector(self.url)() if self._is_sqlite else psycopg.connect(self.url)

    def _count_writes(self) -> None:
        with closing(self._opened()) as connection:
            connection.execute("CREATE TABLE writes (what TEXT)")
            for what in ("INSERT", "UPDATE", "DELETE"):
                connection.execute(
                    f"CREATE TRIGGER count_{what} AFTER {what} ON balances_v1 "
                    f"BEGIN INSERT INTO writes VALUES ('{what}'); END"
                )


def by_stream(event: StreamEvent) -> str:
    return event.stream


@pytest.fixture(params=["inline", "local"])
def ledger(database_url: str, request: pytest.FixtureRequest) -> Ledger:
    return Ledger(database_url, request.param)


def test_repeat_that_reaches_the_fold_writes_no_row(ledger: Ledger) -> None:
    written = [ledger.written()]
    with caught_up(ledger.processor()) as catch_up:
        for index in SEQUENCE:
            ledger.source.deliver([event(index)])
            catch_up()
            written.append(ledger.written())
    assert ledger.reached == [*SEQUENCE]
    assert ledger.evolved == [0, 1, 2, 3]
    assert [after != before for before, after in pairwise(written)] == [True, True, True, False, True]
    assert ledger.balances() == [("S1", 1111, 4, '{"S1":4}')]
    assert ledger.checkpoint().positions() == {"0": 5}


@pytest.mark.parametrize("position", range(5))
def test_replay_from_a_moved_checkpoint_writes_no_row(ledger: Ledger, position: int) -> None:
    for index in SEQUENCE:
        ledger.source.deliver([event(index)])
    with caught_up(ledger.processor()) as catch_up:
        catch_up()
    before, rows = ledger.written(), ledger.balances()
    assert rows == [("S1", 1111, 4, '{"S1":4}')]
    ledger.checkpoint().move({"0": position}, reason="to see")
    ledger.reached.clear()
    ledger.evolved.clear()
    with caught_up(ledger.processor()) as catch_up:  # Another process: it has to find the rows.
        catch_up()
    assert ledger.reached[0] == SEQUENCE[position]
    if ledger.runner == "inline":  # Else some are with each other, and repeats are seen before.
        assert ledger.reached == [*SEQUENCE[position:]]
    assert ledger.evolved == []
    assert ledger.written() == before
    assert ledger.balances() == rows
    assert ledger.checkpoint().positions() == {"0": 5}


def test_new_event_among_a_replay_is_written_once(ledger: Ledger) -> None:
    for index in SEQUENCE[:4]:
        ledger.source.deliver([event(index)])
    with caught_up(ledger.processor()) as catch_up:
        catch_up()
    before = ledger.written()
    ledger.checkpoint().move({"0": 0})
    ledger.source.deliver([event(SEQUENCE[4])])
    with caught_up(ledger.processor()) as catch_up:
        catch_up()
    assert ledger.written() != before
    assert ledger.evolved == [0, 1, 2, 3]
    assert ledger.balances() == [("S1", 1111, 4, '{"S1":4}')]
