"""Handlers of many streams at once, and handlers whose writes share a transaction with their checkpoint."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.errors import (
    BadParameter,
    CheckpointMoved,
    HandlerFailed,
    OutcomeUnknown,
    TransactionFailed,
    Unavailable,
)
from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules
from penstock.processing.checkpoints import MemoryCheckpoints
from penstock.processing.checkpoints.checkpoint import Advance, PositionMove
from penstock.processing.database import connector
from penstock.processing.engine import Backoff
from penstock.processing.outcomes import done_to
from penstock.processing.runners import local, workers
from penstock.processing.sources import MemorySource
from penstock.processing.stream_event import StreamEvent
from penstock.processing.together import Span, Together, Transactional
from tests.failing import has_code
from tests.processing.office import until
from tests.processing.sql import execute, rows

RULES = Rules(backoff=Backoff(first_seconds=0.001, max_seconds=0.01))
Run = Callable[..., None]


@pytest.fixture(params=["inline", "local"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a processor until all is handled."""

    def inline(handler: Any, source: MemorySource, **options: Any) -> None:
        InlineProcessor(handler, source, **{"rules": RULES, **options}).drain(advance=True)

    def local(handler: Any, source: MemorySource, **options: Any) -> None:
        with LocalProcessor(handler, source, **{"rules": RULES, **options}) as running:
            running.wait_until_caught_up(300)

    return inline if request.param == "inline" else local


def test_checkpoints_of_another_database_are_refused(postgres_url: str, tmp_path: Path) -> None:
    own, other = f"sqlite:///{tmp_path}/own.db", f"sqlite:///{tmp_path}/other.db"
    beside = postgres_url.rpartition("/")[0] + "/postgres"
    for database, wrong in ((own, other), (own, postgres_url), (postgres_url, own), (postgres_url, beside)):
        with pytest.raises(
            BadParameter, match=r"checkpoints is '.*'; allowed: DatabaseCheckpoints of the same database"
        ):
            Transactional(database, lambda _, __: None, DatabaseCheckpoints(wrong, "x"))
        Transactional(database, lambda _, __: None, DatabaseCheckpoints(database, "x"))


def test_checkpoints_found_in_another_database_fail_the_stream(tmp_path: Path) -> None:
    own, other = (lambda: sqlite3.connect(tmp_path / "own.db"), lambda: sqlite3.connect(tmp_path / "other.db"))
    source = MemorySource()
    source.append("S", [1])
    processor = InlineProcessor(Transactional(own, lambda _, __: None, DatabaseCheckpoints(other, "x")), source)
    processor.drain()
    [trouble] = processor.engine.busy.failing.values()
    assert "checkpoints is 'x'; allowed: kept in the database whose transaction" in (trouble.detail or "")


@pytest.fixture
def database(database_url: str) -> str:
    """The URL of a database with a table of counts."""
    execute(database_url, "CREATE TABLE counts (stream TEXT NOT NULL, n INTEGER NOT NULL)")
    return database_url


def counts(url: str) -> Counter[tuple[str, int]]:
    return Counter(rows(url, "SELECT stream, n FROM counts"))


def write(connection: Any, spans: Sequence[Span]) -> None:
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    rows = [(span.stream, event.data) for span in spans for event in span.events]
    connection.cursor().executemany(f"INSERT INTO counts VALUES ({mark}, {mark})", rows)


def failing(streams: Collection[str]) -> Callable[[Any, Sequence[Span]], list[Exception | None]]:
    """Return a handler that fails for some streams, and writes the others."""

    def handle(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
        write(connection, [span for span in spans if span.stream not in streams])
        return [ValueError("no") if span.stream in streams else None for span in spans]

    return handle


def streams(*names: str) -> MemorySource:
    """Return a source of streams, each with its number as its only event."""
    source = MemorySource()
    for name in names:
        source.append(name, [int(name[1:])])
    return source


def call_once(processor: InlineProcessor) -> Any:
    """Take all calls that can be made, and return what makes them."""
    calls = processor.engine.take(10, 0.0)
    return lambda: processor._make(calls)


def counter(source: MemorySource, database: str, handle: Any = write, rules: Rules = RULES) -> InlineProcessor:
    """Return a processor that counts, as another process would begin it."""
    return InlineProcessor(
        Transactional(database, handle, DatabaseCheckpoints(database, "counter")), source, rules=rules
    )


def test_streams_of_one_call_have_their_own_outcomes(run: Run) -> None:
    source, found, sizes = MemorySource(), [], []
    # In one batch, so that a call may have several of them however slowly it is read.
    source.deliver([StreamEvent(f"S{number}", index, "event", b"{}") for number in range(5) for index in range(2)])

    def handle(spans: Sequence[Span]) -> list[Any]:
        sizes.append(len(spans))
        found.extend((span.stream, event.index) for span in spans for event in span.events[:1])
        return [done_to(span.events[0].next) for span in spans]

    run(Together(handle, streams_max=3), source)
    assert sorted(found) == [(f"S{number}", index) for number in range(5) for index in range(2)]
    assert 1 < max(sizes) <= 3


def test_stream_that_fails_the_call_is_found_and_parked_alone(run: Run) -> None:
    source, done = streams(*(f"S{number}" for number in range(16))), set[str]()
    checkpoints = MemoryCheckpoints()

    def handle(spans: Sequence[Span]) -> None:
        if any(span.stream == "S11" for span in spans):
            raise ValueError("S11 cannot be")
        done.update(span.stream for span in spans)

    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first_seconds=0.001))
    run(Together(handle), source, rules=rules, checkpoints=checkpoints)
    assert done == {f"S{number}" for number in range(16)} - {"S11"}
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.detail) == ("S11", "S11 cannot be")


def test_returned_exception_exhausts_its_stream_and_a_wrong_number_of_outcomes_all_of_the_call(run: Run) -> None:
    source, once, calls = streams("S0", "S1", "S2", "S3"), Rules(attempts_max=1), list[int]()
    with pytest.raises(HandlerFailed, match=r"S1: .* KeyError"):
        run(
            Together(lambda spans: [KeyError("x") if span.stream == "S1" else None for span in spans]),
            source,
            rules=once,
        )
    with pytest.raises(HandlerFailed, match=r"0 outcomes for [1-4] streams"):
        run(Together(lambda spans: calls.append(len(spans)) or []), source, rules=once)  # type: ignore[func-returns-value]
    assert sum(calls) <= 4, "it is not called in halves"


def test_effects_and_checkpoint_are_committed_together(run: Run, database: str) -> None:
    source, chance = MemorySource("0", "1"), Random(7)
    expected: Counter[tuple[str, int]] = Counter()
    checkpoints = DatabaseCheckpoints(database, "counter")
    calls = 0

    def handle(connection: Any, spans: Sequence[Span]) -> None:
        nonlocal calls
        calls += 1
        write(connection, spans)
        if calls % 3 == 0:
            raise ConnectionError("after its writes")  # They are rolled back.

    for turn in range(4):
        for number in range(20):
            source.append(f"S{chance.randrange(6)}/{number % 2}", [turn * 100 + number], tranche=str(number % 2))
    for tranche in source._batches.values():
        expected.update((item.stream, item.data) for batch in tranche for item in batch)  # type: ignore[attr-defined]
    rules = Rules(backoff=Backoff(first_seconds=0.001, max_seconds=0.01), batches_ahead=8)
    run(Transactional(database, handle, checkpoints, streams_max=4), source, checkpoints=checkpoints, rules=rules)

    assert counts(database) == expected
    assert checkpoints.positions() == {"0": 40, "1": 40}


def test_only_one_of_two_processors_of_a_name_has_its_effects(database: str) -> None:
    source = streams("S1")
    checkpoints = DatabaseCheckpoints(database, "counter")

    def handle(connection: Any, spans: Sequence[Span]) -> None:
        write(connection, spans)
        if not isinstance(connection, sqlite3.Connection):  # SQLite has one writer: nobody could come between.
            DatabaseCheckpoints(database, "counter").commit(Advance({"0": PositionMove(None, 1)}))

    first = InlineProcessor(Transactional(database, handle, checkpoints), source, checkpoints=checkpoints, rules=RULES)
    if database.startswith("sqlite"):  # There it takes over, and finds that all is done.
        InlineProcessor(
            Transactional(database, write, checkpoints), source, checkpoints=checkpoints, rules=RULES
        ).drain()
        first.drain()
        assert counts(database) == Counter({("S1", 1): 1})
        return
    with pytest.raises(CheckpointMoved, match="Another processor runs under this name"):
        first.drain()
    assert not counts(database)


def test_batch_of_many_calls_is_resumed_within(database: str) -> None:
    source, few = MemorySource(), Rules(events_per_call=2)
    source.append("S1", range(7))
    first = counter(source, database, rules=few)
    for _ in range(2):
        first.step()
    assert counts(database) == {("S1", n): 1 for n in range(4)}
    counter(source, database, rules=few).drain()
    assert counts(database) == {("S1", n): 1 for n in range(7)}


def test_effects_beside_a_failing_stream_are_not_repeated(database: str) -> None:
    source, broken = streams("S1", "S2", "S3"), {"S1"}
    counter(source, database, failing(broken)).drain()
    again = counter(source, database, failing(broken))
    again.drain()
    assert again.engine.repeats == 2, "S2 and S3 are read again, and known to be done"
    assert counts(database) == {("S2", 2): 1, ("S3", 3): 1}
    broken.clear()
    again.drain(advance=True)
    assert counts(database) == {("S1", 1): 1, ("S2", 2): 1, ("S3", 3): 1}


def test_retried_stream_is_not_repeated_after_its_commit(database: str) -> None:
    source, failing = MemorySource(), {"S1"}
    rules = Rules(attempts_max=1, exhausted="park", events_per_call=1)

    def fail(connection: Any, spans: Sequence[Span]) -> None:
        if failing:
            raise ValueError("no")
        write(connection, spans)

    source.append("S1", [1, 2])
    counter(source, database, fail, rules).drain()
    failing.clear()
    DatabaseCheckpoints(database, "counter").ask("S1", "retry")
    retrying = counter(source, database, fail, rules)
    retrying.step()  # Heeds what is asked.
    while not counts(database):
        retrying._read()
        retrying._call()  # Nothing is committed beside what the call is.
    assert counts(database) == {("S1", 1): 1}
    counter(source, database, fail, rules).drain()
    assert counts(database) == {("S1", 1): 1, ("S1", 2): 1}
    assert not DatabaseCheckpoints(database, "counter").parked()


@pytest.mark.parametrize("shares_handler", [False, True], ids=["processes", "runs of one handler"])
def test_newer_processor_of_a_name_fences_the_older(database: str, *, shares_handler: bool) -> None:
    source = streams("S0")
    handlers = [Transactional(database, failing("S0"), DatabaseCheckpoints(database, "counter")) for _ in range(2)]
    first = InlineProcessor(handlers[0], source, rules=RULES)
    first.drain()
    second = InlineProcessor(handlers[0 if shares_handler else 1], source, rules=RULES)
    second.step()
    source.append("S1", [1])
    with pytest.raises(CheckpointMoved, match="at 0, but another's"):
        first.drain()
    second.drain()
    assert counts(database) == {("S1", 1): 1}


def test_call_for_a_lost_tranche_is_not_committed(database: str) -> None:
    source = MemorySource("a", "b")
    processor = counter(source, database, rules=Rules(attempts_max=1, exhausted="park"))
    processor._progress.own(frozenset("ab"))
    source.append("S1", [1], tranche="a")
    source.append("S2", [2], tranche="b")
    processor._read()
    make = call_once(processor)
    processor._progress.own(frozenset("b"))
    processor._progress.give_up()  # Its lease could not be renewed in time.
    make()
    assert counts(database) == {("S2", 2): 1}
    assert not processor.engine.busy.active
    assert not processor.engine.parking.streams, "it was no failure"
    processor._commit()
    assert processor._progress.forget_finished() == {"a"}
    assert DatabaseCheckpoints(database, "counter").positions() == {"b": 1}


def test_overdue_call_that_succeeds_has_its_effects_once(database: str) -> None:
    source = streams("S1")
    rules = Rules(timeout=1.0, attempts_max=1, exhausted="park")
    processor = counter(source, database, rules=rules)
    processor._read()
    calls = processor.engine.take(2, 0.0)
    make = processor._make
    assert processor.engine.mark_overdue(2.0) == calls
    make(calls)
    assert not processor.engine.parking.streams
    counter(source, database, rules=rules).drain()
    assert counts(database) == {("S1", 1): 1}


class Lost(sqlite3.Connection):
    """Commits, and does not answer for it."""

    def commit(self) -> None:
        super().commit()
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("away", [2, 1000])
def test_unanswered_commit_is_resolved_before_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    """The answer to a commit is lost, and the database is away for a while when it is asked."""
    file = tmp_path / "consumer.db"
    execute(f"sqlite:///{file}", "CREATE TABLE counts (stream TEXT NOT NULL, n INTEGER NOT NULL)")
    monkeypatch.setattr(workers, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(workers, "RETRY_TIMEOUT", 0.3)
    left = 0

    def connect() -> sqlite3.Connection:
        nonlocal left
        if left > 0:
            left -= 1
            raise sqlite3.OperationalError("unable to open database file")
        return sqlite3.connect(file, isolation_level=None)

    def connect_once() -> sqlite3.Connection:
        nonlocal left
        left = away
        return sqlite3.connect(file, isolation_level=None, factory=Lost)

    source = streams("S0", "S1")
    handler = Transactional(connect_once, failing("S0"), DatabaseCheckpoints(connect, "counter"))
    processor = InlineProcessor(handler, source, rules=RULES)
    processor._read()
    processor._read()
    make = call_once(processor)
    if away > 100:
        with pytest.raises(
            TransactionFailed,
            check=has_code("commit-unknown"),
            match="it is unknown whether the last transaction was committed",
        ):
            make()
    else:
        make()
    left = 0
    InlineProcessor(
        Transactional(connect, failing("S0"), DatabaseCheckpoints(connect, "counter")), source, rules=RULES
    ).drain()
    assert counts(f"sqlite:///{file}") == {("S1", 1): 1}


def test_wait_until_caught_up_names_the_unavailable_database(tmp_path: Path) -> None:
    url, is_away = f"sqlite:///{tmp_path}/consumer.db", threading.Event()

    def connect() -> sqlite3.Connection:
        if is_away.is_set() and threading.current_thread().name == "penstock-handler":
            raise sqlite3.OperationalError("disk I/O error")
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)

    source = MemorySource()
    handler = Transactional(connect, lambda _, __: None, DatabaseCheckpoints(url, "counter"))
    with LocalProcessor(handler, source, rules=RULES) as running:
        running.wait_until_caught_up(300)
        is_away.set()
        source.append("S1", [1])
        until(lambda: running.snapshot.commits_failing, running)
        with pytest.raises(
            Unavailable, match=r"; the last( 2)? commits? ha(s|ve) failed: disk I/O error; S1 stalls at 0"
        ):
            running.wait_until_caught_up(0.05)
        is_away.clear()
        running.wait_until_caught_up(300)
        until(lambda: not running.snapshot.commits_failing, running)


def test_unavailable_database_fails_no_stream(run: Run, database: str) -> None:
    source, tries = streams("S1", "S2"), 0

    def connect() -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise sqlite3.OperationalError("unable to open database file")
        return connector(database)()

    checkpoints = DatabaseCheckpoints(database, "counter")
    run(Transactional(connect, write, checkpoints), source, rules=Rules(attempts_max=1, exhausted="park"))
    assert counts(database) == {("S1", 1): 1, ("S2", 2): 1}
    assert not checkpoints.parked()


def test_handler_that_commits_ends_the_processor(tmp_path: Path, run: Run) -> None:
    database = f"sqlite:///{tmp_path}/consumer.db"

    def commit(connection: Any, spans: Sequence[Span]) -> None:
        connection.commit()

    source = streams("S1")
    with pytest.raises(TransactionFailed, check=has_code("transaction-ended"), match="has ended the transaction"):
        run(Transactional(database, commit, DatabaseCheckpoints(database, "counter")), source)


def test_checkpoint_of_a_removed_tranche_is_ignored(database: str) -> None:
    before = MemorySource("a", "b")
    before.append("S1", [1], tranche="a")
    counter(before, database).drain()
    assert DatabaseCheckpoints(database, "counter").positions() == {"a": 1, "b": 0}
    after = MemorySource("b")
    after.append("S2", [2])
    counter(after, database).drain()
    assert counts(database) == {("S1", 1): 1, ("S2", 2): 1}


def test_unanswered_commit_of_an_empty_page_is_resolved_before_the_next_call(database: str) -> None:
    source, checkpoints = MemorySource(), Forgetful(database, "counter")
    processor = InlineProcessor(Transactional(database, write, checkpoints), source, rules=RULES)
    source.deliver([])
    checkpoints.is_forgetful = True
    with pytest.raises(OutcomeUnknown):
        processor.drain()
    checkpoints.is_forgetful = False
    source.append("S1", [1])
    processor.drain()
    assert counts(database) == {("S1", 1): 1}


class Forgetful(DatabaseCheckpoints):
    """Keeps what it is to, and does not say so."""

    is_forgetful = False

    def commit(self, advance: Advance) -> None:
        super().commit(advance)
        if self.is_forgetful:
            raise OutcomeUnknown(reason="the answer was lost")


def test_fenced_local_processor_ends(database: str) -> None:
    source, checkpoints = streams("S0"), DatabaseCheckpoints(database, "counter")
    running = LocalProcessor(Transactional(database, write, checkpoints), source, rules=RULES).start()
    running.wait_until_caught_up(300)
    counter(source, database).step()
    source.append("S1", [1])
    assert running.wait(300)
    with pytest.raises(CheckpointMoved):
        running.stop()
    assert counts(database) == {("S0", 0): 1}


def test_call_that_outlasts_its_processor_is_rolled_back(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "STOP_TIMEOUT", 0.1)
    source, begun, go_on = streams("S1"), threading.Event(), threading.Event()

    def wait(connection: Any, spans: Sequence[Span]) -> None:
        begun.set()
        assert go_on.wait(300)
        write(connection, spans)

    handler = Transactional(database, wait, DatabaseCheckpoints(database, "counter"))
    running = LocalProcessor(handler, source, rules=RULES).start()
    assert begun.wait(300)
    running.stop()
    go_on.set()
    counter(source, database).drain()
    assert counts(database) == {("S1", 1): 1}


@pytest.mark.parametrize("appends", [[[0], [1], [2], [3]], [[0, 1, 2, 3]]], ids=["batches of one", "in one batch"])
def test_moved_position_repeats_parked_events_behind_it(database: str, appends: list[list[int]]) -> None:
    source, failing = MemorySource(), {2}

    def fail(connection: Any, spans: Sequence[Span]) -> None:
        if any(event.data in failing for span in spans for event in span.events):
            raise ValueError("no")
        write(connection, spans)

    for numbers in appends:
        source.append("S1", numbers)
    rules = Rules(attempts_max=1, exhausted="park", events_per_call=1)
    counter(source, database, fail, rules).drain()
    checkpoints = DatabaseCheckpoints(database, "counter")
    checkpoints.move({"0": 3})
    assert [each.index for each in checkpoints.parked()] == [2], "it waits from before that on"
    checkpoints.move({"0": 0})
    failing.clear()
    checkpoints.ask("S1", "retry")
    counter(source, database, fail, rules).drain()
    assert counts(database) == {("S1", 0): 2, ("S1", 1): 2, ("S1", 2): 1, ("S1", 3): 1}
    assert not checkpoints.parked()
