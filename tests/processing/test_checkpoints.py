"""The contract of checkpoints in memory, in SQLite, in PostgreSQL and at the hub."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.client import Client
from penstock.core.groups.parking import Request
from penstock.errors import (
    BadParameter,
    CheckpointMoved,
    DatabaseUnavailable,
    DatabaseUnsuitable,
    GroupKindDiffers,
    GroupNotFound,
    OutcomeUnknown,
    ParkedNotFound,
    WrongTransaction,
)
from penstock.processing.checkpoints.checkpoint import Advance, Checkpoints, MemoryCheckpoints, PositionMove
from penstock.processing.checkpoints.database import (
    CHECKPOINTS,
    LEASES,
    TABLE,
    DatabaseCheckpoints,
    TablePart,
    list_stored_positions,
)
from penstock.processing.checkpoints.hub import HubCheckpoints
from penstock.processing.checkpoints.leases import DatabaseLeases
from penstock.processing.engine.parking import Parked
from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import examples
from tests.failing import has_code

A, B = "order.placed/0", "order.placed/1"
PARKED = Parked("order.placed-7", A, 3, 9, 4, 5, "ValueError", "no such customer", "1:3")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    """A hub with a feed of two partitions, each with 20 events."""
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed", partition_count=2, partition_strategy="user_defined")
        for partition in "01":
            events = [{"metadata": {"partition": partition}, "n": number} for number in range(20)]
            client.publish("order.placed", events)
        yield hub


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of the consumer's database."""
    return f"sqlite:///{tmp_path}/consumer.db"


@pytest.fixture(params=["memory", "sqlite", "postgres", "hub"])
def checkpoints(request: pytest.FixtureRequest, database: str) -> Checkpoints:
    """Those of the processor `mailer`."""
    name = f"mailer-{request.node.name}"[:200]
    match request.param:
        case "memory":
            return MemoryCheckpoints(name)
        case "sqlite":
            return DatabaseCheckpoints(database, name)
        case "postgres":
            return DatabaseCheckpoints(request.getfixturevalue("postgres_url"), name)
        case _:
            return HubCheckpoints(request.getfixturevalue("hub").url, name)


def test_positions_are_compared_and_set(checkpoints: Checkpoints) -> None:
    assert checkpoints.positions() == {}
    checkpoints.commit(Advance({A: PositionMove(None, "1:3"), B: PositionMove(None, "1:0")}))
    checkpoints.commit(Advance({A: PositionMove("1:3", "1:7")}))
    assert checkpoints.positions() == {A: "1:7", B: "1:0"}


@pytest.mark.parametrize("position", [0, 7, "007", "1:30", "٣", "a"])
def test_position_is_read_with_the_type_it_was_stored_with(database: str, position: Any) -> None:
    checkpoints = DatabaseCheckpoints(database, "mailer")
    checkpoints.commit(Advance({"0": PositionMove(None, position)}))

    assert checkpoints.positions() == {"0": position}
    checkpoints.commit(Advance({"0": PositionMove(position, "b")}))


@pytest.mark.parametrize(
    "wrong", [{A: PositionMove("1:2", "1:9")}, {B: PositionMove("1:2", "1:9")}, {A: PositionMove(None, "1:9")}]
)
def test_second_commit_of_a_position_fails_as_a_whole(checkpoints: Checkpoints, wrong: dict[str, PositionMove]) -> None:
    checkpoints.positions()
    checkpoints.commit(Advance({A: PositionMove(None, "1:3")}))
    with pytest.raises(CheckpointMoved, match="Another processor runs under this name"):
        checkpoints.commit(Advance({B: PositionMove(None, "1:1"), **wrong}))
    assert checkpoints.positions() == {A: "1:3"}


def test_parked_streams_are_committed_with_the_positions(checkpoints: Checkpoints) -> None:
    checkpoints.positions()
    if not checkpoints.keeps_parked:
        assert (list(checkpoints.parked()), checkpoints.requests()) == ([], {})
        return
    place = PARKED.place
    checkpoints.commit(Advance({A: PositionMove(None, "1:9")}, {place: PARKED}))
    with pytest.raises(CheckpointMoved):
        checkpoints.commit(Advance({A: PositionMove("1:1", "1:10")}, {place: None}))
    assert list(checkpoints.parked()) == [PARKED]

    assert isinstance(checkpoints, MemoryCheckpoints | DatabaseCheckpoints | HubCheckpoints)
    checkpoints.ask("order.placed-7", "retry")
    assert checkpoints.requests() == {place: "retry"}
    later = Parked(*PARKED.place, 4, 12, 5, 5, "ValueError", "no such customer", "1:4")
    checkpoints.commit(Advance({}, {place: later}))
    assert checkpoints.requests() == {place: "retry"}, "it goes on being tried"
    checkpoints.commit(Advance({}, {place: Parked(*PARKED.place, 4, 12, 5, 10, "TypeError", "again", "1:4")}))
    assert checkpoints.requests() == {}, "it was tried in vain"
    assert checkpoints.parked()[0].tag == "TypeError"
    checkpoints.commit(Advance({}, {place: None}))
    assert list(checkpoints.parked()) == []


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, database: str) -> tuple[str, DatabaseCheckpoints]:
    """The URL of a database, and the checkpoints of `mailer` there."""
    url = database if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return url, DatabaseCheckpoints(url, "mailer")


def open_connection(url: str) -> Any:
    return sqlite3.connect(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else psycopg.connect(url)


def test_positions_move_with_the_users_transaction_or_not_at_all(kept: tuple[str, DatabaseCheckpoints]) -> None:
    url, checkpoints = kept
    checkpoints.create()
    with closing(open_connection(url)) as connection:
        connection.execute("CREATE TABLE mails (recipient TEXT)")
        connection.commit()
        connection.execute("INSERT INTO mails VALUES ('ada')")
        checkpoints.commit_in(connection, Advance({A: PositionMove(None, 3)}))
        connection.rollback()
        assert checkpoints.positions() == {}
        connection.execute("INSERT INTO mails VALUES ('ada')")
        checkpoints.commit_in(connection, Advance({A: PositionMove(None, 3)}))
        connection.commit()
        assert connection.execute("SELECT recipient FROM mails").fetchall() == [("ada",)]
    assert checkpoints.positions() == {A: 3}


def test_commit_outside_a_transaction_is_refused(database: str) -> None:
    checkpoints = DatabaseCheckpoints(database, "mailer")
    checkpoints.create()
    path = database.removeprefix("sqlite:///")
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as connection,
        pytest.raises(WrongTransaction, check=has_code("outside-transaction")),
    ):
        checkpoints.commit_in(connection, Advance({A: PositionMove(None, 3)}))


def test_move_of_a_processor_is_recorded_and_fences_it(kept: tuple[str, DatabaseCheckpoints]) -> None:
    url, checkpoints = kept
    assert list_stored_positions(url) == []
    checkpoints.positions()
    checkpoints.commit(Advance({A: PositionMove(None, 30)}))
    with pytest.raises(BadParameter, match=rf"tranche is '{B}'; allowed: one that has a position: \['{A}'\]"):
        checkpoints.move({A: 10, B: "x"}, reason="mails were lost")
    assert (checkpoints.positions(), checkpoints.history()) == ({A: 30}, [])
    checkpoints.move({A: 10, B: "x"}, reason="mails were lost", adds=True)

    assert checkpoints.positions() == {A: 10, B: "x"}
    with pytest.raises(
        CheckpointMoved, match=f"mailer: the checkpoint of '{A}' is at 10; this processor has left it at 30"
    ):
        checkpoints.commit(Advance({A: PositionMove(30, 31)}))
    history = checkpoints.history()
    assert [(each.tranche, each.came_from, each.went_to, each.reason) for each in history] == [
        (B, None, "x", "mails were lost"),
        (A, 30, 10, "mails were lost"),
    ]
    assert len(checkpoints.history(1)) == 1
    assert [(each.processor, each.tranche, each.position) for each in list_stored_positions(url)] == [
        ("mailer", A, 10),
        ("mailer", B, "x"),
    ]
    checkpoints.forget()
    assert (checkpoints.positions(), checkpoints.history()) == ({}, [])
    with pytest.raises(
        GroupNotFound, check=has_code("checkpoint-not-found"), match="no position is stored for processor 'mailer'"
    ):
        checkpoints.forget()
    with pytest.raises(
        ParkedNotFound,
        check=has_code("parked-stream-not-found"),
        match=r"processor 'mailer' has no parked stream 'order\.placed-8'",
    ):
        checkpoints.ask("order.placed-8", "skip")


def test_processors_that_begin_at_once_all_find_their_tables(kept: tuple[str, DatabaseCheckpoints]) -> None:
    (database, _), together = kept, threading.Barrier(8)

    def begin(number: int) -> None:
        together.wait(300)
        DatabaseCheckpoints(database, f"p{number}", table=f"kept_{turn}").commit(Advance({A: PositionMove(None, 1)}))
        DatabaseLeases(database, f"p{number}", table=f"kept_{turn}").renew([A])

    with ThreadPoolExecutor(8) as threads:
        for turn in range(examples(2, 5)):
            list(threads.map(begin, range(8)))
            assert len(list_stored_positions(database, table=f"kept_{turn}")) == 8


ASKED: dict[str, tuple[Callable[[DatabaseCheckpoints], Any], Any]] = {
    "parked": (lambda it: list(it.parked()), []),
    "parked at": (lambda it: list(it.parked_at()), []),
    "requests": (lambda it: it.requests(), {}),
    "history": (lambda it: list(it.history()), []),
    "take over": (lambda it: it.take_over([A], "me"), {A: {}}),
    "holds": (lambda it: it.holds(Advance({A: PositionMove(None, 3)})), False),
    "commit": (lambda it: (it.commit(Advance({A: PositionMove(None, 3)})), it.positions()), (None, {A: 3})),
    "move": (lambda it: (it.move({A: 3}), it.positions()), (None, {A: 3})),
    "record": (lambda it: (it.record(A, "why"), it.history()[0].reason), (None, "why")),
}


@pytest.mark.parametrize("asked", ASKED)
def test_first_call_of_any_method_creates_the_tables(kept: tuple[str, DatabaseCheckpoints], asked: str) -> None:
    ask, answer = ASKED[asked]
    assert ask(kept[1]) == answer


def test_requests_for_unknown_streams_are_refused_before_the_tables_exist(
    kept: tuple[str, DatabaseCheckpoints],
) -> None:
    for checkpoints in (kept[1], MemoryCheckpoints("mailer")):
        with pytest.raises(
            ParkedNotFound,
            check=has_code("parked-stream-not-found"),
            match=r"processor 'mailer' has no parked stream 'order\.placed-7'",
        ):
            checkpoints.ask("order.placed-7", "retry")
        with pytest.raises(BadParameter, match="request is 'retyr'; allowed: 'retry' or 'skip'"):
            checkpoints.ask("order.placed-7", "retyr")
        with pytest.raises(BadParameter, match=r"stream is '?7'?; allowed: the name of a parked stream"):
            checkpoints.ask(7, "retry")
    with pytest.raises(
        GroupNotFound, check=has_code("checkpoint-not-found"), match="no position is stored for processor 'mailer'"
    ):
        kept[1].forget()


@pytest.mark.parametrize("part", [*CHECKPOINTS, *LEASES], ids=lambda part: part.creation)
def test_tables_have_the_declared_columns(kept: tuple[str, DatabaseCheckpoints], part: TablePart) -> None:
    url, checkpoints = kept
    checkpoints.positions()
    DatabaseLeases(url, "mailer").renew([A])
    with closing(open_connection(url)) as connection:
        found = connection.execute(f"SELECT * FROM {TABLE}{part.suffix}")
        assert {column[0] for column in found.description} == part.columns


@pytest.mark.parametrize("suffix", ["", "_parked", "_leases"])
def test_table_of_another_shape_is_refused_with_its_missing_columns(
    kept: tuple[str, DatabaseCheckpoints], suffix: str
) -> None:
    url, checkpoints = kept
    with closing(open_connection(url)) as connection:
        connection.execute(f"CREATE TABLE penstock_checkpoints{suffix} (processor TEXT, pos TEXT)")
        connection.commit()
    missing = {"": "owner; position; tranche; updated_at", "_parked": "attempts; detail; ", "_leases": "shared"}
    told = f"the table penstock_checkpoints{suffix} is not Penstock's: it lacks the columns {missing[suffix]}"

    for ask in (
        (DatabaseLeases(url, "x").leave,) if suffix == "_leases" else (checkpoints.positions, checkpoints.parked)
    ):
        with pytest.raises(
            DatabaseUnsuitable,
            check=has_code("table-unsuitable"),
            match=f"{told}.* and has pos; processor. Another program.* created it",
        ) as error:
            ask()
        assert error.value.columns == ["pos", "processor"]
    if not suffix:
        with pytest.raises(DatabaseUnsuitable, check=has_code("table-unsuitable"), match=told):
            list_stored_positions(url)
    others = DatabaseCheckpoints(url, "mailer", table="others")
    assert (others.positions(), others.parked()) == ({}, [])


def test_dropped_tables_are_reported_and_created_by_the_next_start(kept: tuple[str, DatabaseCheckpoints]) -> None:
    url, checkpoints = kept
    leases = DatabaseLeases(url, "mailer")
    assert (checkpoints.positions(), leases.renew(["0"]).tranches) == ({}, {"0"})
    with closing(open_connection(url)) as connection:
        for suffix in ("", "_parked", "_ahead", "_history", "_leases"):
            connection.execute(f"DROP TABLE penstock_checkpoints{suffix}")
        connection.commit()

    with pytest.raises(
        DatabaseUnsuitable,
        check=has_code("table-gone"),
        match=r"the tables of checkpoints no longer exist: .*penstock_checkpoints",
    ):
        checkpoints.commit(Advance({A: PositionMove(None, 3)}))
    with pytest.raises(
        DatabaseUnsuitable,
        check=has_code("table-gone"),
        match=r"tables of leases no longer exist: .*_leases.*They were dropped",
    ):
        leases.renew(["0"])
    for again in (checkpoints, DatabaseCheckpoints(url, "mailer")):
        again.commit(Advance({A: PositionMove(again.positions().get(A), 3)}))
        assert again.positions() == {A: 3}
    assert leases.renew(["0"]).tranches == {"0"}


def test_private_in_memory_database_is_refused() -> None:
    checkpoints = DatabaseCheckpoints(lambda: sqlite3.connect(":memory:"), "mailer")
    checkpoints.create()
    with pytest.raises(
        DatabaseUnsuitable,
        check=has_code("table-gone"),
        match="each connection opens a database of its own, as with an in-memory database",
    ):
        checkpoints.positions()


class Breaking(sqlite3.Connection):
    """Does not answer to a statement."""

    breaks = "COMMIT"

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql.startswith(self.breaks):
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, *parameters)

    def commit(self) -> None:
        self.execute("COMMIT")


def test_only_an_unanswered_commit_has_an_unknown_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(file: str) -> Any:
        return lambda: sqlite3.connect(tmp_path / file, factory=Breaking)

    with pytest.raises(DatabaseUnavailable, match="the checkpoints' database: unable to open database file"):
        DatabaseCheckpoints(connect("gone/consumer.db"), "mailer").commit(Advance({A: PositionMove(None, 3)}))
    checkpoints, leases = (kind(connect("consumer.db"), "mailer") for kind in (DatabaseCheckpoints, DatabaseLeases))
    with pytest.raises(OutcomeUnknown, match="the checkpoints' database: disk I/O error"):
        checkpoints.commit(Advance({A: PositionMove(None, 3)}))
    with pytest.raises(OutcomeUnknown, match="the leases' database: disk I/O error"):
        leases.leave()
    monkeypatch.setattr(Breaking, "breaks", "BEGIN")
    with pytest.raises(DatabaseUnavailable, match="the checkpoints' database: disk I/O error"):
        checkpoints.commit(Advance({A: PositionMove(None, 3)}))
    with pytest.raises(DatabaseUnavailable, match="the leases' database: disk I/O error"):
        leases.leave()


def test_hub_group_of_another_kind_is_refused(hub: LiveHub) -> None:
    with Client(hub.url) as client:
        feed = client.feed("order.placed")
        feed.store("carts", feed.cursors())
    with pytest.raises(GroupKindDiffers, match="no processor can have its name"):
        HubCheckpoints(hub.url, "carts").positions()


@pytest.mark.parametrize("request_", ["retry", "skip"])
def test_request_applies_to_streams_parked_at_its_time(checkpoints: Checkpoints, request_: Request) -> None:
    checkpoints.positions()
    if not checkpoints.keeps_parked:
        return
    assert isinstance(checkpoints, MemoryCheckpoints | DatabaseCheckpoints | HubCheckpoints)
    stream, here, there = PARKED.stream, PARKED.place, (PARKED.stream, B)
    also = replace(PARKED, tranche=B)
    checkpoints.commit(
        Advance({A: PositionMove(None, "1:9"), B: PositionMove(None, "1:9")}, {here: PARKED, there: also})
    )
    checkpoints.ask(stream, request_)
    assert checkpoints.requests() == {here: request_, there: request_}

    again = replace(PARKED, index=PARKED.next, next=PARKED.next + 1)
    checkpoints.commit(Advance({}, {here: again}, anew=frozenset({here})))

    assert checkpoints.requests() == {there: request_}, "what another has is heeded by that one"
    checkpoints.commit(Advance({}, {here: replace(again, attempts=9)}, tried=frozenset({there})))
    again = replace(again, attempts=9)
    assert checkpoints.requests() == {}
    assert {each.place: each for each in checkpoints.parked()} == {here: again, there: also}
