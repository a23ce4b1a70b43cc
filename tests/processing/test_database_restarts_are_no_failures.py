"""Terminated connections, timeouts, deadlocks and restarts of PostgreSQL end no processor, and park no stream."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg.errors import DeadlockDetected, SerializationFailure

from penstock.errors import TransactionFailed
from penstock.processing import DatabaseCheckpoints, InlineProcessor, LocalProcessor, Rules, Transactional
from penstock.processing.checkpoints import DatabaseLeases
from penstock.processing.engine import Backoff
from penstock.processing.sources import MemorySource
from penstock.processing.together import Span, Together
from penstock.testing.postgres import PostgresCluster
from tests.exhaustive import examples
from tests.failing import has_code
from tests.processing.office import until

ONCE = Rules(attempts_max=1, exhausted="park", backoff=Backoff(first_seconds=0.001))
"""A single failure of a stream parks it."""


@pytest.fixture
def url(postgres_url: str) -> str:
    """The URL of a database with a table of handled streams."""
    execute(postgres_url, "CREATE TABLE handled (stream TEXT NOT NULL)")
    execute(postgres_url, "CREATE TABLE totals (name TEXT PRIMARY KEY, n INTEGER NOT NULL)")
    execute(postgres_url, "INSERT INTO totals VALUES ('a', 0), ('b', 0)")
    return postgres_url


def execute(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def read_handled(url: str) -> Counter[str]:
    return Counter(stream for (stream,) in execute(url, "SELECT stream FROM handled"))


def write(connection: Any, spans: Sequence[Span]) -> None:
    connection.cursor().executemany("INSERT INTO handled VALUES (%s)", [(span.stream,) for span in spans])


def has_bad(spans: Sequence[Span]) -> bool:
    return any(span.stream == "bad" for span in spans)


def end(url: str, pid: int) -> None:
    """End a connection as an operator, a fail-over or a restart does, and wait until it has gone."""
    execute(url, f"SELECT pg_terminate_backend({pid}, 20000)")


def streams(*names: str) -> MemorySource:
    source = MemorySource()
    for name in names:
        source.append(name, [1])
    return source


def transactional(url: str, handle: Callable[[Any, Sequence[Span]], Any], name: str = "tx") -> Transactional:
    return Transactional(url, handle, DatabaseCheckpoints(url, name))


@contextmanager
def lock(url: str, table: str) -> Iterator[None]:
    """Keep everybody from a table, and end the connection of the first that waits for it."""
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        yield
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until(lambda: execute(url, waiting))
        end(url, execute(url, waiting)[0][0])


@pytest.mark.parametrize("table", ["penstock_checkpoints", "penstock_checkpoints_leases"])
def test_commit_and_lease_are_repeated_after_their_connections_were_terminated(url: str, table: str) -> None:
    source, leases = streams("S1"), DatabaseLeases(url, "plain", lease_seconds=2.0)
    options: Any = {"checkpoints": DatabaseCheckpoints(url, "plain"), "leases": leases, "commit_interval": 0.01}
    with LocalProcessor(lambda _, __: None, source, **options) as running:
        running.wait_until_caught_up(300)
        with lock(url, table):
            source.append("S1", [2])
        running.wait_until_caught_up(300)
    assert DatabaseCheckpoints(url, "plain").positions() == {"0": 2}


def test_commit_is_repeated_after_a_statement_timeout(url: str) -> None:
    limited = f"{url}{'&' if '?' in url else '?'}options=-cstatement_timeout%3D100"
    source, checkpoints = streams("S1"), DatabaseCheckpoints(limited, "plain")
    with LocalProcessor(lambda _, __: None, source, checkpoints=checkpoints, commit_interval=0.01) as running:
        running.wait_until_caught_up(300)
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE penstock_checkpoints IN EXCLUSIVE MODE")
            source.append("S1", [2])
            until(lambda: running.snapshot.commits_failing, running)
        running.wait_until_caught_up(300)
    assert checkpoints.positions() == {"0": 2}


def raised(connection: Any, spans: Sequence[Span]) -> None:
    write(connection, spans)


def kept_silent(connection: Any, spans: Sequence[Span]) -> None:
    with suppress(psycopg.Error):
        write(connection, spans)


def blamed(connection: Any, spans: Sequence[Span]) -> list[Exception | None]:
    try:
        write(connection, spans)
    except psycopg.Error as error:
        return [error for _ in spans]
    return [None for _ in spans]


def told_otherwise(connection: Any, spans: Sequence[Span]) -> None:
    try:
        write(connection, spans)
    except psycopg.Error as error:
        raise ValueError("could not be written") from error


@pytest.mark.parametrize("go_on", [raised, kept_silent, blamed, told_otherwise])
def test_connection_terminated_in_a_handler_fails_no_stream(
    url: str, go_on: Callable[[Any, Sequence[Span]], Any]
) -> None:
    has_ended = threading.Event()

    def handle(connection: Any, spans: Sequence[Span]) -> Any:
        if not has_ended.is_set():
            has_ended.set()
            end(url, connection.info.backend_pid)
        return go_on(connection, spans)

    handler = transactional(url, handle)
    with LocalProcessor(handler, streams("S1"), rules=ONCE) as running:
        running.wait_until_caught_up(300)
        assert not running.engine.busy.failures
    assert read_handled(url) == {"S1": 1}
    assert not handler.checkpoints.parked()


def test_stream_whose_connection_is_always_terminated_stalls_alone(url: str) -> None:
    def handle(connection: Any, spans: Sequence[Span]) -> None:
        if has_bad(spans):
            end(url, connection.info.backend_pid)
        write(connection, spans)

    handler = transactional(url, handle)
    with LocalProcessor(handler, streams("S1", "bad", "S2", "S3"), rules=ONCE) as running:
        until(lambda: sum(read_handled(url).values()) == 3, running)
        until(lambda: [trouble.tag for trouble in running.engine.busy.stalled.values()] == ["away"], running)
        assert not running.engine.busy.failures
    assert read_handled(url) == {"S1": 1, "S2": 1, "S3": 1}
    assert not handler.checkpoints.parked()


def test_processors_survive_fast_restarts_with_each_effect_once(url: str, postgres_cluster: PostgresCluster) -> None:
    source, plain = MemorySource(), DatabaseCheckpoints(url, "plain")
    handler = transactional(url, write)
    with (
        LocalProcessor(handler, source, rules=ONCE) as first,
        LocalProcessor(lambda _, __: None, source, checkpoints=plain, rules=ONCE, commit_interval=0.0) as second,
    ):
        first.wait_until_caught_up(300)
        second.wait_until_caught_up(300)
        appended = 0
        for _ in range(examples(1, 3)):
            restarting = threading.Thread(target=postgres_cluster.restart)
            restarting.start()
            while restarting.is_alive():
                source.append(f"S{appended}", [1])
                appended += 1
                restarting.join(0.01)
        first.wait_until_caught_up(300)
        second.wait_until_caught_up(300)
        assert not first.engine.busy.failures
        assert not second.engine.busy.failures
    assert read_handled(url) == {f"S{number}": 1 for number in range(appended)}
    assert not handler.checkpoints.parked()


def test_deadlock_between_handlers_parks_no_stream(url: str) -> None:
    meeting = threading.Barrier(2, timeout=300)

    def adding(first: str, second: str) -> Callable[[Any, Sequence[Span]], None]:
        def handle(connection: Any, spans: Sequence[Span]) -> None:
            connection.execute("UPDATE totals SET n = n + 1 WHERE name = %s", [first])
            with suppress(threading.BrokenBarrierError):
                meeting.wait()
            meeting.abort()  # They meet once.
            connection.execute("UPDATE totals SET n = n + 1 WHERE name = %s", [second])
            write(connection, spans)

        return handle

    one, other = transactional(url, adding("a", "b"), "one"), transactional(url, adding("b", "a"), "other")
    with (
        LocalProcessor(one, streams("S1"), rules=ONCE) as first,
        LocalProcessor(other, streams("S2"), rules=ONCE) as second,
    ):
        first.wait_until_caught_up(300)
        second.wait_until_caught_up(300)
    assert execute(url, "SELECT sum(deadlocks) FROM pg_stat_database") != [(0,)]
    assert read_handled(url) == {"S1": 1, "S2": 1}
    assert execute(url, "SELECT n FROM totals") == [(2,), (2,)]
    assert not [*one.checkpoints.parked(), *other.checkpoints.parked()]


@pytest.mark.parametrize("error", [DeadlockDetected("in a circle"), SerializationFailure("it was changed")])
@pytest.mark.parametrize("returns", [True, False], ids=["returned", "raised"])
def test_deadlock_reported_by_a_handler_of_many_streams_is_retried(error: Exception, *, returns: bool) -> None:
    given = list[str]()

    def handle(spans: Sequence[Span]) -> list[Exception | None]:
        is_first = not given
        given.extend(span.stream for span in spans)
        if is_first and not returns:
            raise error
        return [error if is_first else None for _ in spans]

    InlineProcessor(Together(handle), streams("S1", "S2"), rules=Rules(attempts_max=1)).drain(advance=True)
    assert sorted(given) == ["S1", "S1", "S2"]


def run_slowly(connection: Any, url: str, statement: str) -> None:
    connection.execute("SET LOCAL statement_timeout = 20")
    connection.execute(statement)


def idle(connection: Any, url: str, statement: str) -> None:
    """Leave the transaction alone until the server has ended the session; then execute a statement, if there is one."""
    connection.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
    there = f"SELECT 1 FROM pg_stat_activity WHERE pid = {connection.info.backend_pid}"
    until(lambda: not execute(url, there))
    if statement:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("misbehave", "statement", "tag"),
    [
        (run_slowly, "SELECT pg_sleep(60)", "QueryCanceled"),
        (run_slowly, "SELEKT 1", "SyntaxError"),
        (run_slowly, "SELECT * FROM missing", "UndefinedTable"),
        (run_slowly, "INSERT INTO totals VALUES ('a', 1)", "UniqueViolation"),
        (idle, "SELECT 1", "IdleInTransactionSessionTimeout"),
        (idle, "", "IdleInTransactionSessionTimeout"),
    ],
    ids=["slow", "syntax", "no table", "unique", "idle, and goes on", "idle, and is done"],
)
def test_statement_that_fails_or_a_transaction_left_idle_parks_its_stream_alone(
    url: str, misbehave: Callable[[Any, str, str], None], statement: str, tag: str
) -> None:
    def handle(connection: Any, spans: Sequence[Span]) -> None:
        if has_bad(spans):
            misbehave(connection, url, statement)
            if statement == "":
                return
        write(connection, spans)

    handler = transactional(url, handle)
    with LocalProcessor(handler, streams("S1", "bad", "S2"), rules=ONCE) as running:
        running.wait_until_caught_up(300)
    assert read_handled(url) == {"S1": 1, "S2": 1}
    assert [(each.stream, each.tag) for each in handler.checkpoints.parked()] == [("bad", tag)]


def test_handler_that_closes_its_connection_ends_the_processor(url: str) -> None:
    processor = LocalProcessor(
        transactional(url, lambda connection, _: connection.close()), streams("S1"), rules=ONCE
    ).start()
    assert processor.wait(300)
    with pytest.raises(TransactionFailed, check=has_code("transaction-ended")):
        processor.stop()
