"""Projections: the table is the fold of the events, whatever comes twice, fails, or is killed."""

import datetime as dt
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import msgspec
import psycopg
import pytest

from penstock.errors import BadParameter, ProjectionBehind, ProjectionNotFound
from penstock.processing import Backoff, Filtered, Inline, MemorySource, Rules, StreamEvent, current_row, retry
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.projections.projection import Projection
from penstock.testing.processing import FaultySource, nth

VIEW_SQL = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE name = 'balances'",
    "postgres": "SELECT pg_get_viewdef('balances')",
}
RULES = Rules(backoff=Backoff(first=0.001, most=0.01))


def opened(url: str) -> Any:
    return sqlite3.connect(url[10:]) if url.startswith("sqlite") else psycopg.connect(url)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with closing(opened(url)) as connection:
        return list(connection.execute(query).fetchall())


@dataclass
class Balance:
    total: int = 0
    entries: int = 0
    notes: list[str] = field(default_factory=list)


def booked(balance: Balance, event: StreamEvent) -> Balance | None:
    if event.data.get("close"):
        return None
    balance.entries += 1
    balance.notes.append(str(event.index))
    balance.total += event.data["amount"]
    return balance


def by_stream(event: StreamEvent) -> str:
    return event.stream


def balances(version: int = 1, **options: Any) -> Projection[Balance]:
    return Projection("balances", Balance, booked, key=by_stream, version=version, **options)


def test_rows_are_what_the_fold_makes_of_their_events(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"amount": 5}, {"amount": 7}])
    source.append("B", [{"amount": 1}])
    running = balances().inline(source, database_url)
    running.drain()
    source.append("A", [{"amount": 100}])
    running.drain()

    assert rows(database_url, "SELECT key, total, entries FROM balances ORDER BY key") == [("A", 112, 3), ("B", 1, 1)]
    assert rows(database_url, "SELECT penstock_position FROM balances_v1 ORDER BY key") == [('{"A":3}',), ('{"B":1}',)]
    assert DatabaseCheckpoints(database_url, "balances_v1").positions() == {"0": 3}


@pytest.mark.parametrize("is_faulty", [False, True])
def test_a_row_has_all_that_is_wanted_of_its_streams(database_url: str, *, is_faulty: bool) -> None:
    def by_kind(event: StreamEvent) -> str:
        return event.kind

    source = MemorySource()
    for stream in ("A", "B", "C"):
        source.append(stream, [{"amount": 100}], kind="drawn")
        source.append(stream, [{"amount": 5}, {"amount": 7}], kind="paid")
    wanted: Any = Filtered(source, kinds=["paid"])
    if is_faulty:
        wanted = FaultySource(wanted, repeats=nth(1))
    running = Projection("balances", Balance, booked, key=by_kind).inline(wanted, database_url)
    running.drain()
    assert rows(database_url, "SELECT key, total, entries FROM balances") == [("paid", 36, 6)]

    DatabaseCheckpoints(database_url, "balances_v1").move({"0": 0}, reason="to see")
    Projection("balances", Balance, booked, key=by_kind).inline(wanted, database_url).drain()
    assert rows(database_url, "SELECT key, total, entries FROM balances") == [("paid", 36, 6)], "none of them twice"


def test_a_replay_writes_nothing_and_shows_no_past_state(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"amount": 5}, {"amount": 7}, {"amount": 1}])
    source.append("B", [{"amount": 9}, {"close": True}])
    projection = balances()
    projection.inline(source, database_url).drain()
    before = rows(database_url, "SELECT * FROM balances_v1 ORDER BY key")
    assert rows(database_url, "SELECT key, total FROM balances") == [("A", 13)], "what is closed is shown no more"

    DatabaseCheckpoints(database_url, "balances_v1").move({"0": 0}, reason="to see")
    again = projection.inline(source, database_url)
    while again.step():
        assert rows(database_url, "SELECT * FROM balances_v1 ORDER BY key") == before
    items = source._batches["0"][0]
    source.deliver([items[1], items[0], items[1]])  # S1E0, S1E1, S1E2, S1E1 …
    source.append("A", [{"amount": 1000}])
    again.drain()
    assert rows(database_url, "SELECT key, total, entries FROM balances") == [("A", 1013, 4)]


def test_a_row_that_cannot_be_folded_holds_no_other_and_what_was_before_it_is_kept(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"amount": 5}, {"amount": 7}, {"wrong": 1}, {"amount": 1}])
    source.append("B", [{"amount": 9}])
    rules = Rules(attempts_max=3, exhausted="park", backoff=Backoff(first=0.001))
    balances().inline(source, database_url, rules=rules).drain(advance=True)

    assert rows(database_url, "SELECT key, total, entries FROM balances ORDER BY key") == [("A", 12, 2), ("B", 9, 1)]
    checkpoints = DatabaseCheckpoints(database_url, "balances_v1")
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.index, parked.next, parked.tag) == ('["A"] in A', 2, 4, "KeyError")

    def forgiving(balance: Balance, event: StreamEvent) -> Balance | None:
        return balance if "wrong" in event.data else booked(balance, event)

    checkpoints.ask('["A"] in A', "retry")
    mended = Projection("balances", Balance, forgiving, key=by_stream)
    mended.inline(source, database_url, rules=rules).drain(advance=True)
    assert rows(database_url, "SELECT key, total, entries, notes FROM balances ORDER BY key")[0][:3] == ("A", 13, 3)
    assert list(checkpoints.parked()) == []


def test_another_version_is_built_beside_and_shown_from_one_moment_to_the_next(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"amount": 5}])
    balances().inline(source, database_url).drain()

    def doubled(balance: Balance, event: StreamEvent) -> Balance:
        balance.total += 2 * event.data["amount"]
        return balance

    second = Projection("balances", Balance, doubled, key=by_stream, version=2)
    second.inline(source, database_url).drain()
    assert rows(database_url, "SELECT total FROM balances") == [(5,)]
    second.switch(database_url)
    assert rows(database_url, "SELECT total FROM balances") == [(10,)]
    source.append("A", [{"amount": 1}])
    balances().inline(source, database_url).drain()
    assert rows(database_url, "SELECT total FROM balances") == [(10,)], "the old one goes on beside it"
    assert rows(database_url, "SELECT total FROM balances_v1") == [(6,)]


class Place(NamedTuple):
    kind: str
    day: dt.date
    is_late: bool
    number: int


class Everything(msgspec.Struct):
    whole: int = 0
    real: float = 0.0
    text: str | None = None
    flag: bool = False
    blob: bytes = b""
    at: dt.datetime | None = None
    on: dt.date | None = None
    parts: dict[str, list[int]] = {}


class Total(NamedTuple):
    Total: int


def by_total(event: StreamEvent) -> Total:
    return Total(event.index)


def place_of(event: StreamEvent) -> Place | None:
    if event.data["kind"] == "none":
        return None
    return Place(event.data["kind"], dt.date.fromisoformat(event.data["day"]), event.data["late"], 7)


def test_every_type_comes_back_as_it_was(database_url: str) -> None:
    def evolve(state: Everything, event: StreamEvent) -> Everything:
        assert isinstance(state.parts, dict)
        return Everything(
            state.whole + 1, 0.5, "é'\"", not state.flag, b"\x00\xff", dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
            dt.date(2026, 1, 2), {**state.parts, str(event.index): [event.index]},
        )  # fmt: skip

    projection = Projection("everything", Everything, evolve, key=place_of)
    source = MemorySource()
    event = {"kind": "x", "day": "2026-01-03", "late": True}
    source.append("A", [event, {**event, "kind": "none"}])
    projection.inline(source, database_url).drain()
    source.append("A", [event])
    projection.inline(source, database_url).drain()  # Another process: the row is read from the database.

    with closing(opened(database_url)) as connection:
        key = (*Place("x", dt.date(2026, 1, 3), True, 7),)
        found = projection.table.find(connection, [key])
    assert found[key].state == Everything(
        2, 0.5, "é'\"", False, b"\x00\xff", dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.date(2026, 1, 2),
        {"0": [0], "2": [2]},
    )  # fmt: skip
    assert found[key].positions == {"A": 3}


@pytest.mark.parametrize("seed", range(5))
def test_whatever_fails_the_table_is_the_fold_of_the_log(database_url: str, seed: int) -> None:
    chance, source = Random(seed), MemorySource("0", "1")

    def moody(balance: Balance, event: StreamEvent) -> Balance | None:
        if chance.random() < 0.1:
            balance.total += 10_000  # What has failed half-way leaves no mark.
            raise ValueError("as chance has it")
        return booked(balance, event)

    expected: dict[str, list[int]] = {}
    for _ in range(3):
        for _ in range(40):
            name, amount = f"S{chance.randrange(8)}", chance.randrange(100)
            source.append(name, [{"amount": amount}], tranche=str(int(name[1:]) % 2))
            expected.setdefault(name, []).append(amount)
        projection = Projection("balances", Balance, moody, key=by_stream)
        with projection.local(source, database_url, rules=RULES) as running:
            running.wait_until_caught_up(300)
    found = {
        key: (total, entries) for key, total, entries in rows(database_url, "SELECT key, total, entries FROM balances")
    }
    assert found == {name: (sum(amounts), len(amounts)) for name, amounts in expected.items()}


@dataclass
class Words:
    """A state with a field that JSON cannot have."""

    LIMIT: ClassVar[int] = 9
    last: object = None
    counts: dict[str, complex] = field(default_factory=dict)


@dataclass
class Named:
    """A state that cannot be made of nothing."""

    name: str


def test_what_cannot_be_a_projection_is_named() -> None:
    def unnamed(event: Any):  # type: ignore[no-untyped-def]
        return event.key

    with pytest.raises(BadParameter, match=r"state is 'dict'; allowed: a dataclass or a msgspec\.Struct"):
        Projection("balances", dict, booked)  # type: ignore[arg-type]
    with pytest.raises(BadParameter, match="key is 'unnamed'; allowed: a function annotated to return"):
        Projection("balances", Balance, booked, key=unnamed)
    with pytest.raises(BadParameter, match="name is 'no name'; allowed: letters, digits and _"):
        Projection("no name", Balance, booked)
    with pytest.raises(BadParameter, match=r"name is 'ä{30}a'; allowed: up to 63 bytes with `_v1` behind it"):
        Projection("ä" * 30 + "a", Balance, booked)
    Projection("ä" * 30, Balance, booked)
    with pytest.raises(BadParameter, match="state is 'total'; allowed: columns of different names in key and state"):
        Projection("balances", Balance, booked, key=by_total)
    long = "ä" * 31 + "bc"
    with pytest.raises(BadParameter, match=f"state is '{long}'; allowed: names of up to 63 bytes, as PostgreSQL has"):
        Projection("wide", make_dataclass("Wide", [(long, int, 0)]), lambda state, _: state)
    with pytest.raises(
        BadParameter, match=r"state is 'Words.counts: dict.* allowed: fields that can be columns, or JSON"
    ):
        Projection("words", Words, lambda state, _: state)
    for kind in (
        dict[tuple[int, int], int],
        dict,
        dict[Any, int],
    ):  # Number keys of the last two would come back as texts.
        places = make_dataclass("Places", [("at", kind, field(default_factory=dict))])
        told = r"state is 'Places.at: (dict|typing).*; allowed: dicts that say what keys they have, texts, numbers"
        with pytest.raises(BadParameter, match=told):
            Projection("places", places, lambda state, _: state)
    with pytest.raises(BadParameter, match=r"evolve is 'unnamed\(event\)'; allowed: .* takes \(state, event\)"):
        Projection("balances", Balance, unnamed)  # type: ignore[arg-type]
    with pytest.raises(
        BadParameter, match=r"key is 'booked\(balance, event\)'; allowed: a function that takes \(event\)"
    ):
        Projection("balances", Balance, booked, key=booked)
    with pytest.raises(BadParameter, match=r"initial is 'Named\(name\)'; allowed: .* takes no arguments"):
        Projection("names", Named, lambda state, _: state)
    with pytest.raises(BadParameter, match="version is 0; allowed: a whole number from 1"):
        Projection("balances", Balance, booked, version=0)


def test_a_state_with_other_columns_is_told_to_be_another_version(database_url: str) -> None:
    @dataclass
    class Longer(Balance):
        largest: float = 0.0

    source = MemorySource()
    source.append("A", [{"amount": 5}])
    balances().inline(source, database_url).drain()
    longer = Projection("balances", Longer, lambda state, _: state, key=by_stream)
    with pytest.raises(
        BadParameter, match=r"another version: this one has a table balances_v1 with the columns key (TEXT|text), t"
    ):
        longer.inline(source, database_url)
    with pytest.raises(BadParameter, match="another version: this one has a table balances_v1 with the columns key "):
        longer.switch(database_url)


def test_another_key_of_the_same_columns_is_told_to_be_another_version(database_url: str) -> None:
    class Number(NamedTuple):
        number: int

    def by_number(event: StreamEvent) -> Number:
        return Number(event.index)

    numbers = Projection("held", make_dataclass("Numbers", [("number", int, 0)]), lambda state, _: state, key=by_stream)
    keys = Projection("held", make_dataclass("Keys", [("key", str, "")]), lambda state, _: state, key=by_number)
    numbers.inline(MemorySource(), database_url)
    told = r"state is 'PRIMARY KEY \(number\)'; allowed: another version: .* with the columns PRIMARY KEY \(key\)$"
    with pytest.raises(BadParameter, match=told):
        keys.inline(MemorySource(), database_url)


@pytest.mark.parametrize(
    ("before", "after"), [(int, float), (str, int), (str, dt.datetime), (str, Decimal), (str, list)]
)
def test_a_field_of_another_type_is_told_to_be_another_version(database_url: str, before: type, after: type) -> None:
    def made(kind: type) -> Projection[Any]:
        state = make_dataclass("Held", [("amount", kind | None, None)])
        return Projection("held", state, lambda state, _: state, key=by_stream)

    made(before).inline(MemorySource(), database_url)
    made(before).inline(MemorySource(), database_url)  # The same is there.
    with pytest.raises(BadParameter, match=r"state is 'amount .*another version: this one has .* the columns amount "):
        made(after).inline(MemorySource(), database_url)


def test_a_value_that_json_cannot_have_fails_its_row_alone_and_is_named(database_url: str) -> None:
    @dataclass
    class Counts:
        counts: object = None

    def counted(state: Counts, event: StreamEvent) -> Counts:
        return Counts({("a", 1) if event.data["broken"] else "a": 1})

    source = MemorySource()
    for number in range(6):
        source.append(f"S{number}", [{"broken": number == 3}])
    processor = Projection("counts", Counts, counted, key=by_stream).inline(source, database_url)
    processor.drain()
    assert rows(database_url, "SELECT key FROM counts ORDER BY key") == [(f"S{number}",) for number in (0, 1, 2, 4, 5)]
    [trouble] = processor.engine.busy.failing.values()
    assert trouble.detail is not None
    assert "{('a', 1): 1}" in trouble.detail
    assert trouble.detail.endswith("and no other counts")
    assert "allowed: what JSON can have (Only dicts with str-like" in trouble.detail


def test_several_who_begin_at_once_all_find_their_table(database_url: str) -> None:
    together = threading.Barrier(8)

    def begin(projection: Projection[Any]) -> None:
        together.wait(20)
        projection.inline(MemorySource(), database_url)

    with ThreadPoolExecutor(8) as threads:
        for number in range(5):
            list(threads.map(begin, [Projection(f"counts_{number}", Balance, booked, key=by_stream)] * 8))
            assert rows(database_url, f"SELECT total FROM counts_{number}") == []


def test_rows_of_a_commit_that_was_refused_are_made_anew_from_what_is_stored(tmp_path: Path) -> None:
    is_refused = False

    class Refusing(sqlite3.Connection):
        def commit(self) -> None:
            nonlocal is_refused
            if is_refused:
                is_refused = False
                raise sqlite3.OperationalError("disk I/O error")
            super().commit()

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "refused.db", isolation_level=None, factory=Refusing)

    source = MemorySource()
    source.append("S", [{"amount": 1}, {"amount": 2}])
    running = balances().inline(source, connect, rules=RULES)
    running.drain()
    source.append("S", [{"amount": 10}])
    is_refused = True
    running.drain(advance=True)
    assert not is_refused
    assert rows(f"sqlite:///{tmp_path}/refused.db", "SELECT total, entries FROM balances") == [(13, 3)]


def test_a_version_that_is_half_built_is_not_shown_unless_that_is_wanted(database_url: str) -> None:
    source, checkpoints = MemorySource("a", "b"), DatabaseCheckpoints(database_url, "balances_v2")
    for tranche in ("a", "b"):
        for _ in range(12):
            source.append(f"S-{tranche}", [{"amount": 5}], tranche=tranche)
    balances().inline(source, database_url).drain()
    second = balances(version=2)
    processor = second.inline(source, database_url)
    with pytest.raises(
        ProjectionBehind, match=r"balances_v2 is not as far .* \{'a': 'not begun, of 12', 'b': 'not begun"
    ):
        second.switch(database_url, timeout=0)
    processor.drain()
    checkpoints.move({"b": 9})
    with pytest.raises(ProjectionBehind, match=r"as balances_v1, which is in use: \{'b': 'at 9 of 12'\}"):
        second.switch(database_url, timeout=0.1)
    second.switch(database_url, even_if_behind=True)
    checkpoints.move({"b": 12})
    balances().switch(database_url)  # And back: it is as far.
    second.switch(database_url)
    second.switch(database_url)


def test_a_version_that_is_a_moment_behind_is_waited_for(database_url: str) -> None:
    source, second = MemorySource(), balances(version=2)
    source.append("S", [{"amount": 5}])
    balances().inline(source, database_url).drain()
    processor = second.inline(source, database_url)
    with ThreadPoolExecutor(1) as threads:
        switching = threads.submit(second.switch, database_url)
        time.sleep(0.2)
        assert not switching.done()
        processor.drain()
        switching.result(300)
    assert "balances_v2" in str(
        rows(database_url, VIEW_SQL["sqlite" if database_url.startswith("sqlite") else "postgres"])
    )


def test_names_that_sqlite_takes_for_one_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/read.db"
    balances().inline(MemorySource(), url)
    with pytest.raises(BadParameter, match="name is 'Balances'; allowed: one that the database has no view of"):
        Projection("Balances", Balance, booked, key=by_stream).inline(MemorySource(), url)
    assert [name for (name,) in rows(url, "SELECT name FROM sqlite_master WHERE type = 'view'")] == ["balances"]


def test_a_column_that_is_called_as_a_version_is_none(database_url: str) -> None:
    def counted(counts: Any, _: StreamEvent) -> Any:
        return type(counts)(counts.balances_v2 + 1)

    counts = make_dataclass("Counts", [("balances_v2", int, 0)])
    source = MemorySource("a", "b")
    for tranche in ("a", "b"):
        source.append(f"S-{tranche}", [1], tranche=tranche)
    first, second = (Projection("balances", counts, counted, key=by_stream, version=each) for each in (1, 2))
    first.inline(source, database_url).drain()
    second.inline(source, database_url)
    with pytest.raises(ProjectionBehind, match="balances_v2 is not as far as balances_v1"):
        second.switch(database_url, timeout=0)


def test_who_may_read_what_is_shown_may_do_so_when_another_version_is(postgres_url: str) -> None:
    source, others = MemorySource(), make_dataclass("Other", [("other", int, 0), ("total", int, 0)])
    source.append("S", [{"amount": 5}])
    more = make_dataclass("More", [("total", int, 0), ("entries", int, 0), ("notes", list[str], ()), ("more", int, 0)])
    versions = [
        balances(),
        Projection("balances", more, lambda state, _: state, key=by_stream, version=2),
        Projection("balances", others, lambda state, _: state, key=by_stream, version=3),
    ]
    for each in versions:
        each.inline(source, postgres_url).drain()
    reader = f"reader_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {reader}")
        try:
            connection.execute(
                f"GRANT SELECT ON balances TO {reader} WITH GRANT OPTION; GRANT SELECT ON balances TO PUBLIC"
            )
            granted = connection.execute("SELECT relacl FROM pg_class WHERE relname = 'balances'").fetchall()
            for each in (*versions[1:], versions[0]):
                each.switch(postgres_url)
                assert rows(postgres_url, f"SELECT has_table_privilege('{reader}', 'balances', 'SELECT')") == [(True,)]
                now = connection.execute("SELECT relacl FROM pg_class WHERE relname = 'balances'").fetchall()
                assert now == granted
        finally:
            connection.execute(f"DROP OWNED BY {reader}; DROP ROLE {reader}")


def test_a_view_that_others_depend_on_is_switched_where_it_keeps_its_columns_and_else_that_is_said(
    postgres_url: str,
) -> None:
    source = MemorySource()
    source.append("S", [{"amount": 5}])
    other = Projection(
        "balances", make_dataclass("Other", [("other", int, 0)]), lambda state, _: state, key=by_stream, version=3
    )
    for each in (balances(), balances(version=2), other):
        each.inline(source, postgres_url).drain()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE VIEW report AS SELECT sum(total) AS total FROM balances")
    balances(version=2).switch(postgres_url)
    with pytest.raises(
        BadParameter, match=r"no other depends, since its columns change: .* view report depends on view"
    ):
        other.switch(postgres_url)
    assert rows(postgres_url, "SELECT total FROM report") == [(5,)]
    assert "balances_v2" in str(rows(postgres_url, VIEW_SQL["postgres"]))


def test_a_version_whose_rows_are_parked_is_built_no_further(database_url: str) -> None:
    def stubborn(balance: Balance, event: StreamEvent) -> Balance | None:
        if event.data["amount"] == 7:
            raise ValueError("seven")
        return booked(balance, event)

    source = MemorySource()
    for amount in (5, 7, 5):
        source.append("S", [{"amount": amount}])
    balances().inline(source, database_url).drain()
    second = Projection("balances", Balance, stubborn, key=by_stream, version=2)
    rules = Rules(attempts_max=1, exhausted="park")
    second.inline(source, database_url, rules=rules).drain()
    with pytest.raises(ProjectionBehind, match=r"'0': 'at [01] of 3'"):
        second.switch(database_url, timeout=0)


def test_a_table_that_has_the_name_of_the_view_is_named_and_left_alone(database_url: str) -> None:
    with closing(opened(database_url)) as connection:
        connection.execute("CREATE TABLE balances (mine integer)")
        connection.commit()

    told = "name is 'balances'; allowed: one that the database has no table of"
    with pytest.raises(BadParameter, match=told):
        balances().inline(MemorySource(), database_url)
    assert rows(database_url, "SELECT mine FROM balances") == []

    with closing(opened(database_url)) as connection:
        connection.execute("ALTER TABLE balances RENAME TO mine")
        connection.commit()
    balances().inline(MemorySource(), database_url)
    with closing(opened(database_url)) as connection:
        connection.execute("DROP VIEW balances")
        connection.execute("ALTER TABLE mine RENAME TO balances")
        connection.commit()
    with pytest.raises(BadParameter, match=told):
        balances().switch(database_url)


def test_a_view_of_somebody_elses_that_has_the_name_is_named_and_left_alone(database_url: str) -> None:
    balances().inline(MemorySource(), database_url)
    with closing(opened(database_url)) as connection:
        connection.execute("DROP VIEW balances")
        connection.execute("CREATE VIEW balances AS SELECT 1 AS mine")
        connection.commit()

    told = "name is 'balances'; allowed: one that the database has no view of"
    with pytest.raises(BadParameter, match=told):
        balances(version=2).inline(MemorySource(), database_url)
    with pytest.raises(BadParameter, match=told):
        balances().switch(database_url, even_if_behind=True)
    assert rows(database_url, "SELECT mine FROM balances") == [(1,)]


def test_a_version_that_was_never_built_is_not_shown(database_url: str) -> None:
    source = MemorySource()
    source.append("A", [{"amount": 5}])
    balances().inline(source, database_url).drain()
    with pytest.raises(ProjectionNotFound, match="the database has no rows of balances_v9"):
        balances(version=9).switch(database_url)
    assert rows(database_url, "SELECT total FROM balances") == [(5,)]


def test_who_switches_in_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(ProjectionNotFound, match="the database has no rows of balances_v1"):
        balances().switch(f"sqlite:///{tmp_path}/nodb.db")
    assert [*tmp_path.iterdir()] == []


def test_handler_that_waits_for_its_row_goes_on_after_a_switch(database_url: str) -> None:
    """Version 1 is folded no further: who reads its table waits for ever. A row that is deleted is waited for, too."""
    source, read = MemorySource(), list[tuple[str, int | None]]()
    source.append("A", [{"amount": 5}])
    balances().inline(source, database_url).drain()

    def check(stream: str, events: Any) -> Any:
        with closing(opened(database_url)) as connection:
            row, positions = current_row(connection, "balances", key=stream)
        if positions.get(stream, 0) < events[-1].next:
            return retry(60)
        read.append((stream, row and row["total"]))
        return None

    second = balances(version=2).inline(source, database_url)
    with closing(opened(database_url)) as connection:
        assert current_row(connection, "balances", key="nobody") == (None, {})
    waiting = Inline(check, source)
    waiting.drain()
    source.append("A", [{"amount": 7}])
    source.append("B", [{"amount": 1}, {"close": True}])
    waiting.drain()
    assert read == [("A", 5)]
    second.drain()
    balances(version=2).switch(database_url)
    waiting.advance(60)
    waiting.drain()
    assert read == [("A", 5), ("A", 12), ("B", None)]


def test_current_row_names_what_it_lacks(database_url: str) -> None:
    with (
        closing(opened(database_url)) as connection,
        pytest.raises(ProjectionNotFound, match="has no rows of balances"),
    ):
        current_row(connection, "balances", key="A")
    balances().inline(MemorySource(), database_url).drain()
    with (
        closing(opened(database_url)) as connection,
        pytest.raises(BadParameter, match=r"the columns of the key: \['key'\]"),
    ):
        current_row(connection, "balances", account="A")
