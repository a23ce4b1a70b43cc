"""Handlers of many streams at once, and those whose writes share a transaction with their checkpoint."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from penstock.errors import (
    BadOutcome,
    BadParameter,
    CheckpointMoved,
    CommitUnknown,
    OutcomeUnknown,
    StreamExhausted,
    TransactionEnded,
    Unavailable,
)
from penstock.processing import (
    Backoff,
    DatabaseCheckpoints,
    Inline,
    Local,
    MemoryCheckpoints,
    MemorySource,
    Rules,
    group_calls,
)
from penstock.processing.checkpoints.checkpoint import Advance, Move
from penstock.processing.engine.outcome import done_to
from penstock.processing.runners import local
from penstock.processing.together import Span, Together, Transactional
from tests.processing.office import until

RULES = Rules(backoff=Backoff(first=0.001, most=0.01))
Run = Callable[..., None]


@pytest.fixture(params=["inline", "local"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a processor until all is handled."""

    def inline(handler: Any, source: MemorySource, **options: Any) -> None:
        Inline(handler, source, **{"rules": RULES, **options}).drain(advance=True)

    def local(handler: Any, source: MemorySource, **options: Any) -> None:
        with Local(handler, source, **{"rules": RULES, **options}) as running:
            running.wait_until_caught_up(300)

    return inline if request.param == "inline" else local


def test_checkpoints_in_another_database_are_refused_when_they_are_given(postgres_url: str, tmp_path: Path) -> None:
    own, other = f"sqlite:///{tmp_path}/own.db", f"sqlite:///{tmp_path}/other.db"
    beside = postgres_url.rpartition("/")[0] + "/postgres"
    for database, wrong in ((own, other), (own, postgres_url), (postgres_url, own), (postgres_url, beside)):
        with pytest.raises(
            BadParameter, match=r"checkpoints is '.*'; allowed: DatabaseCheckpoints of the same database"
        ):
            Transactional(database, lambda _, __: None, DatabaseCheckpoints(wrong, "x"))
        Transactional(database, lambda _, __: None, DatabaseCheckpoints(database, "x"))


def test_checkpoints_that_turn_out_to_be_in_another_database_are_told_so(tmp_path: Path) -> None:
    own, other = (lambda: sqlite3.connect(tmp_path / "own.db"), lambda: sqlite3.connect(tmp_path / "other.db"))
    source = MemorySource()
    source.append("S", [1])
    processor = Inline(Transactional(own, lambda _, __: None, DatabaseCheckpoints(other, "x")), source)
    processor.drain()
    [trouble] = processor.engine.busy.failing.values()
    assert "checkpoints is 'x'; allowed: kept in the database whose transaction" in (trouble.detail or "")


@pytest.fixture
def database(database_url: str) -> str:
    """The URL of a database with a table of counts."""
    with closing(connected(database_url)) as connection:
        connection.execute("CREATE TABLE counts (stream TEXT NOT NULL, n INTEGER NOT NULL)")
        connection.commit()
    return database_url


def connected(url: str) -> Any:
    return sqlite3.connect(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else psycopg.connect(url)


def counts(url: str) -> Counter[tuple[str, int]]:
    with closing(connected(url)) as connection:
        return Counter(connection.execute("SELECT stream, n FROM counts").fetchall())


def write(connection: Any, spans: Sequence[Span]) -> None:
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    rows = [(span.stream, event.data) for span in spans for event in span.events]
    connection.cursor().executemany(f"INSERT INTO counts VALUES ({mark}, {mark})", rows)


def counter(source: MemorySource, database: str, handle: Any = write, rules: Rules = RULES) -> Inline:
    """Return a processor that counts, as another process would begin it."""
    return Inline(Transactional(database, handle, DatabaseCheckpoints(database, "counter")), source, rules=rules)


def test_streams_come_together_and_each_has_its_own_outcome(run: Run) -> None:
    source, found, sizes = MemorySource(), [], []
    for number in range(5):
        source.append(f"S{number}", [number, number])

    def handle(spans: Sequence[Span]) -> list[Any]:
        sizes.append(len(spans))
        found.extend((span.stream, event.index) for span in spans for event in span.events[:1])
        return [done_to(span.events[0].next) for span in spans]

    run(Together(handle, streams_max=3), source)
    assert sorted(found) == [(f"S{number}", index) for number in range(5) for index in range(2)]
    assert 1 < max(sizes) <= 3


def test_a_stream_that_fails_the_call_is_found_and_holds_no_other(run: Run) -> None:
    source, done = MemorySource(), set()
    checkpoints = MemoryCheckpoints()
    for number in range(16):
        source.append(f"S{number}", [number])

    def handle(spans: Sequence[Span]) -> None:
        if any(span.stream == "S11" for span in spans):
            raise ValueError("S11 cannot be")
        done.update(span.stream for span in spans)

    rules = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first=0.001))
    run(Together(handle), source, rules=rules, checkpoints=checkpoints)
    assert done == {f"S{number}" for number in range(16)} - {"S11"}
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.detail) == ("S11", "S11 cannot be")


def test_exceptions_and_counts_of_outcomes_that_are_returned(run: Run) -> None:
    source = MemorySource()
    source.append("S1", [1])
    source.append("S2", [2])
    with pytest.raises(StreamExhausted, match=r"S1: .* KeyError"):
        run(
            Together(lambda spans: [KeyError("x") if span.stream == "S1" else None for span in spans]),
            source,
            rules=Rules(attempts_max=1),
        )
    with pytest.raises(StreamExhausted, match=r"0 outcomes for [12] streams"):
        run(Together(lambda spans: []), source, rules=Rules(attempts_max=1))  # noqa: ARG005 - Nothing comes of them.
    assert issubclass(BadOutcome, Exception)


def test_effects_and_checkpoint_are_committed_together_each_event_once(run: Run, database: str) -> None:
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
    rules = Rules(backoff=Backoff(first=0.001, most=0.01), batches_ahead=8)
    run(Transactional(database, handle, checkpoints, streams_max=4), source, checkpoints=checkpoints, rules=rules)

    assert counts(database) == expected
    assert checkpoints.positions() == {"0": 40, "1": 40}


def test_two_processors_of_one_name_do_not_both_have_their_effects(database: str) -> None:
    source = MemorySource()
    source.append("S1", [1])
    checkpoints = DatabaseCheckpoints(database, "counter")

    def handle(connection: Any, spans: Sequence[Span]) -> None:
        write(connection, spans)
        if not isinstance(connection, sqlite3.Connection):  # SQLite has one writer: nobody could come between.
            DatabaseCheckpoints(database, "counter").commit(Advance({"0": Move(None, 1)}))

    first = Inline(Transactional(database, handle, checkpoints), source, checkpoints=checkpoints, rules=RULES)
    if database.startswith("sqlite"):  # There it takes over, and finds that all is done.
        Inline(Transactional(database, write, checkpoints), source, checkpoints=checkpoints, rules=RULES).drain()
        first.drain()
        assert counts(database) == Counter({("S1", 1): 1})
        return
    with pytest.raises(CheckpointMoved, match="Another processor runs under this name"):
        first.drain()
    assert not counts(database)


def test_a_batch_that_takes_many_calls_is_gone_on_with_where_it_was_left(database: str) -> None:
    source, few = MemorySource(), Rules(events_per_call=2)
    source.append("S1", range(7))
    first = counter(source, database, rules=few)
    for _ in range(2):
        first.step()
    assert counts(database) == {("S1", n): 1 for n in range(4)}
    counter(source, database, rules=few).drain()
    assert counts(database) == {("S1", n): 1 for n in range(7)}


def test_what_others_have_done_while_one_fails_is_not_done_again(database: str) -> None:
    source, failing = MemorySource(), {"S1"}

    def fail(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
        write(connection, [span for span in spans if span.stream not in failing])
        return [ValueError("no") if span.stream in failing else None for span in spans]

    for number in range(1, 4):
        source.append(f"S{number}", [number])
    counter(source, database, fail).drain()
    again = counter(source, database, fail)
    again.drain()
    assert again.engine.repeats == 2, "S2 and S3 are read again, and known to be done"
    assert counts(database) == {("S2", 2): 1, ("S3", 3): 1}
    failing.clear()
    again.drain(advance=True)
    assert counts(database) == {("S1", 1): 1, ("S2", 2): 1, ("S3", 3): 1}


def test_a_parked_stream_that_is_tried_again_is_not_tried_once_more_after_its_commit(database: str) -> None:
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


def test_who_is_started_under_the_same_name_takes_over_though_no_position_moves(database: str) -> None:
    source = MemorySource()

    def fail(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
        write(connection, [span for span in spans if span.stream != "S0"])
        return [ValueError("no") if span.stream == "S0" else None for span in spans]

    source.append("S0", [0])
    first = counter(source, database, fail)
    first.drain()
    second = counter(source, database, fail)
    second.step()
    source.append("S1", [1])
    with pytest.raises(CheckpointMoved, match="at 0, but another's"):
        first.drain()
    second.drain()
    assert counts(database) == {("S1", 1): 1}


def test_what_may_be_anothers_by_now_is_not_committed(database: str) -> None:
    source = MemorySource("a", "b")
    processor = counter(source, database, rules=Rules(attempts_max=1, exhausted="park"))
    processor._progress.own(frozenset("ab"))
    source.append("S1", [1], tranche="a")
    source.append("S2", [2], tranche="b")
    processor._read()
    calls = processor.engine.take(2, 0.0)
    processor._progress.own(frozenset("b"))
    processor._progress.give_up()  # Its lease could not be renewed in time.
    make, _ = processor._make
    make(calls)
    assert counts(database) == {("S2", 2): 1}
    assert not processor.engine.busy.active
    assert not processor.engine.parking.streams, "it was no failure"
    processor._commit()
    assert processor._progress.closed() == {"a"}
    assert DatabaseCheckpoints(database, "counter").positions() == {"b": 1}


def test_a_call_that_lasts_too_long_and_succeeds_has_its_effects_once(database: str) -> None:
    source = MemorySource()
    rules = Rules(timeout_s=1.0, attempts_max=1, exhausted="park")
    source.append("S1", [1])
    processor = counter(source, database, rules=rules)
    processor._read()
    calls = processor.engine.take(2, 0.0)
    make, _ = processor._make
    assert processor.engine.overdue(2.0) == calls
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
def test_nothing_is_done_again_before_it_is_known_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    """The answer to a commit is lost, and the database is away for a while when it is asked."""
    file = tmp_path / "consumer.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE counts (stream TEXT NOT NULL, n INTEGER NOT NULL)")
    monkeypatch.setattr(group_calls, "PAUSE_S", 0.01)
    monkeypatch.setattr(group_calls, "PATIENCE_S", 0.3)
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

    def fail(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
        write(connection, [span for span in spans if span.stream != "S0"])
        return [ValueError("no") if span.stream == "S0" else None for span in spans]

    source = MemorySource()
    source.append("S0", [0])
    source.append("S1", [1])
    handler = Transactional(connect_once, fail, DatabaseCheckpoints(connect, "counter"))
    processor = Inline(handler, source, rules=RULES)
    processor._read()
    processor._read()
    calls = processor.engine.take(10, 0.0)
    make, _ = processor._make
    if away > 100:
        with pytest.raises(CommitUnknown, match="nobody knows whether its last transaction was committed"):
            make(calls)
    else:
        make(calls)
    left = 0
    again = Inline(Transactional(connect, fail, DatabaseCheckpoints(connect, "counter")), source, rules=RULES)
    again.drain()
    assert counts(f"sqlite:///{file}") == {("S1", 1): 1}


def test_who_waits_in_vain_for_a_database_that_is_away_is_told_why(tmp_path: Path) -> None:
    url, is_away = f"sqlite:///{tmp_path}/consumer.db", threading.Event()

    def connect() -> sqlite3.Connection:
        if is_away.is_set() and threading.current_thread().name == "penstock-handler":
            raise sqlite3.OperationalError("disk I/O error")
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)

    source = MemorySource()
    handler = Transactional(connect, lambda _, __: None, DatabaseCheckpoints(url, "counter"))
    with Local(handler, source, rules=RULES) as running:
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


def test_a_database_that_is_away_is_no_streams_fault(run: Run, database: str) -> None:
    source, tries = MemorySource(), 0

    def connect() -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise sqlite3.OperationalError("unable to open database file")
        return opened(database)

    source.append("S1", [1])
    source.append("S2", [2])
    checkpoints = DatabaseCheckpoints(database, "counter")
    run(Transactional(connect, write, checkpoints), source, rules=Rules(attempts_max=1, exhausted="park"))
    assert counts(database) == {("S1", 1): 1, ("S2", 2): 1}
    assert not checkpoints.parked()


def opened(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    return psycopg.connect(url, autocommit=True)


def test_results_of_another_number_are_refused_once(run: Run) -> None:
    source, calls = MemorySource(), list[int]()
    for number in range(4):
        source.append(f"S{number}", [number])

    def handle(spans: Sequence[Span]) -> list[None]:
        calls.append(len(spans))
        return [None] * (len(spans) + 1)

    with pytest.raises(StreamExhausted, match="outcomes for"):
        run(Together(handle), source, rules=Rules(attempts_max=1))
    assert sum(calls) <= 4, "it is not called in halves"


def test_a_coroutine_function_is_refused(database: str) -> None:
    async def handle(*_: Any) -> None: ...

    with pytest.raises(BadParameter, match="handle is 'async handle'; allowed: a function that is not async"):
        Together(handle)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="a function that is not async"):
        Transactional(database, handle, DatabaseCheckpoints(database, "counter"))  # type: ignore[arg-type]


def test_a_handler_that_commits_ends_the_processor(tmp_path: Path, run: Run) -> None:
    database = f"sqlite:///{tmp_path}/consumer.db"

    def commit(connection: Any, spans: Sequence[Span]) -> None:
        connection.commit()

    source = MemorySource()
    source.append("S1", [1])
    with pytest.raises(TransactionEnded, match="has ended the transaction"):
        run(Transactional(database, commit, DatabaseCheckpoints(database, "counter")), source)


def test_each_run_takes_over_though_it_has_the_same_checkpoints(database: str) -> None:
    source = MemorySource()

    def fail(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
        write(connection, [span for span in spans if span.stream != "S0"])
        return [ValueError("no") if span.stream == "S0" else None for span in spans]

    handler = Transactional(database, fail, DatabaseCheckpoints(database, "counter"))
    source.append("S0", [0])
    first = Inline(handler, source, rules=RULES)
    first.drain()
    second = Inline(handler, source, rules=RULES)
    second.step()
    source.append("S1", [1])
    with pytest.raises(CheckpointMoved):
        first.drain()
    second.drain()
    assert counts(database) == {("S1", 1): 1}


def test_a_tranche_that_is_not_there_any_more_is_in_nobodys_way(database: str) -> None:
    before = MemorySource("a", "b")
    before.append("S1", [1], tranche="a")
    counter(before, database).drain()
    assert DatabaseCheckpoints(database, "counter").positions() == {"a": 1, "b": 0}
    after = MemorySource("b")
    after.append("S2", [2])
    counter(after, database).drain()
    assert counts(database) == {("S1", 1): 1, ("S2", 2): 1}


def test_what_moved_when_an_answer_was_lost_is_found_out_before_the_next_call(database: str) -> None:
    source, checkpoints = MemorySource(), Forgetful(database, "counter")
    processor = Inline(Transactional(database, write, checkpoints), source, rules=RULES)
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


def test_a_processor_that_is_taken_over_ends_at_once(database: str) -> None:
    source, checkpoints = MemorySource(), DatabaseCheckpoints(database, "counter")
    source.append("S0", [0])
    running = Local(Transactional(database, write, checkpoints), source, rules=RULES).start()
    running.wait_until_caught_up(300)
    counter(source, database).step()
    source.append("S1", [1])
    assert running.wait(300)
    with pytest.raises(CheckpointMoved):
        running.stop()
    assert counts(database) == {("S0", 0): 1}


def test_a_call_that_outlasts_its_processor_lets_go_of_its_transaction(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "STOP_S_MAX", 0.1)
    source, begun, go_on = MemorySource(), threading.Event(), threading.Event()

    def wait(connection: Any, spans: Sequence[Span]) -> None:
        begun.set()
        assert go_on.wait(300)
        write(connection, spans)

    source.append("S1", [1])
    running = Local(
        Transactional(database, wait, DatabaseCheckpoints(database, "counter")), source, rules=RULES
    ).start()
    assert begun.wait(300)
    running.stop()
    go_on.set()
    counter(source, database).drain()
    assert counts(database) == {("S1", 1): 1}


def test_a_position_that_is_moved_takes_all_behind_it_along(database: str) -> None:
    source, few = MemorySource(), Rules(events_per_call=2)
    source.append("S1", range(4))
    counter(source, database, rules=few).step()
    DatabaseCheckpoints(database, "counter").move({"0": 0}, reason="once more")
    counter(source, database, rules=few).drain()
    assert counts(database) == {("S1", 0): 2, ("S1", 1): 2, ("S1", 2): 1, ("S1", 3): 1}


@pytest.mark.parametrize("appends", [[[0], [1], [2], [3]], [[0, 1, 2, 3]]], ids=["batches of one", "in one batch"])
def test_a_position_that_is_moved_takes_what_parked_streams_have_behind_it_along(
    database: str, appends: list[list[int]]
) -> None:
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


def test_a_transactional_keeps_its_positions_where_it_says(run: Run, database: str) -> None:
    source, checkpoints = MemorySource(), DatabaseCheckpoints(database, "counter")
    source.append("S1", [1])
    handler = Transactional(database, write, checkpoints)
    with pytest.raises(BadParameter, match="those that Transactional has"):
        run(handler, source, checkpoints=DatabaseCheckpoints(database, "other"))
    run(handler, source)
    assert checkpoints.positions() == {"0": 1}
    checkpoints.forget()
    assert not checkpoints.positions()
