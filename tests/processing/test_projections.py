"""A projection is the fold of its events, whatever comes twice or fails, and its versions are switched at once."""

import datetime as dt
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple
from uuid import uuid4

import psycopg
import pytest

from penstock.errors import BadParameter, ProjectionBehind, ProjectionNotFound
from penstock.processing import InlineProcessor, Rules, StreamEvent
from penstock.processing.checkpoints.database import DatabaseCheckpoints
from penstock.processing.engine import Backoff
from penstock.processing.outcomes import retry
from penstock.processing.projections import current_row
from penstock.processing.projections.projection import Projection
from penstock.processing.sources import Filtered, MemorySource
from penstock.testing.processing import FaultySource, nth
from tests.exhaustive import examples, seeds
from tests.processing.sql import connect, execute, rows

RULES = Rules(backoff=Backoff(first_seconds=0.001, max_seconds=0.01))
ONCE = Rules(attempts_max=1, exhausted="park")
TOTALS = "SELECT key, total, entries FROM balances ORDER BY key"


@dataclass
class Balance:
    total: int = 0
    entries: int = 0
    notes: list[str] = field(default_factory=list)


def book(balance: Balance, event: StreamEvent) -> Balance | None:
    if event.data is None:
        return None  # It closes the account.
    balance.entries += 1
    balance.notes.append(str(event.index))
    balance.total += event.data
    return balance


def by_stream(event: StreamEvent) -> str:
    return event.stream


def keep(state: Any, _: StreamEvent) -> Any:
    return state


def balances(version: int = 1, evolve: Any = book) -> Projection[Balance]:
    return Projection("balances", Balance, evolve, key=by_stream, version=version)


def accounts(**amounts: list[Any]) -> MemorySource:
    source = MemorySource()
    for name, found in amounts.items():
        source.append(name, found)
    return source


def view(url: str) -> str:
    """Return the definition of the view `balances`."""
    if url.startswith("sqlite"):
        return str(rows(url, "SELECT sql FROM sqlite_master WHERE name = 'balances'"))
    return str(rows(url, "SELECT pg_get_viewdef('balances')"))


# The fold.


def test_rows_are_the_fold_of_their_events(database_url: str) -> None:
    source = accounts(A=[5, 7], B=[1])
    running = balances().inline(source, database_url)
    running.drain()
    source.append("A", [100])
    running.drain()

    assert rows(database_url, TOTALS) == [("A", 112, 3), ("B", 1, 1)]
    assert rows(database_url, "SELECT penstock_position FROM balances_v1 ORDER BY key") == [('{"A":3}',), ('{"B":1}',)]
    assert DatabaseCheckpoints(database_url, "balances_v1").positions() == {"0": 3}


@pytest.mark.parametrize("is_faulty", [False, True])
def test_row_of_several_filtered_streams_has_each_event_once(database_url: str, *, is_faulty: bool) -> None:
    def by_kind(event: StreamEvent) -> str:
        return event.kind

    source = MemorySource()
    for stream in ("A", "B", "C"):
        source.append(stream, [100], kind="drawn")
        source.append(stream, [5, 7], kind="paid")
    wanted: Any = Filtered(source, kinds=["paid"])
    if is_faulty:
        wanted = FaultySource(wanted, repeats=nth(1))
    for _ in range(2):
        Projection("balances", Balance, book, key=by_kind).inline(wanted, database_url).drain()
        assert rows(database_url, TOTALS) == [("paid", 36, 6)]
        DatabaseCheckpoints(database_url, "balances_v1").move({"0": 0}, reason="to see")


def test_replay_writes_nothing_and_shows_no_past_state(database_url: str) -> None:
    source = accounts(A=[5, 7, 1], B=[9, None])
    balances().inline(source, database_url).drain()
    before = rows(database_url, "SELECT * FROM balances_v1 ORDER BY key")
    assert rows(database_url, TOTALS) == [("A", 13, 3)], "a closed account is not shown"

    DatabaseCheckpoints(database_url, "balances_v1").move({"0": 0}, reason="to see")
    again = balances().inline(source, database_url)
    while again.step():
        assert rows(database_url, "SELECT * FROM balances_v1 ORDER BY key") == before
    items = source._batches["0"][0]
    source.deliver([items[1], items[0], items[1]])
    source.append("A", [1000])
    again.drain()
    assert rows(database_url, TOTALS) == [("A", 1013, 4)]


def test_row_that_cannot_be_folded_is_parked_alone_and_goes_on_after_a_retry(database_url: str) -> None:
    source = accounts(A=[5, 7, "wrong", 1], B=[9])
    rules = Rules(attempts_max=3, exhausted="park", backoff=Backoff(first_seconds=0.001))
    balances().inline(source, database_url, rules=rules).drain(advance=True)

    assert rows(database_url, TOTALS) == [("A", 12, 2), ("B", 9, 1)]
    checkpoints = DatabaseCheckpoints(database_url, "balances_v1")
    [parked] = checkpoints.parked()
    assert (parked.stream, parked.index, parked.next, parked.tag) == ('["A"] in A', 2, 4, "TypeError")

    def forgive(balance: Balance, event: StreamEvent) -> Balance | None:
        return balance if event.data == "wrong" else book(balance, event)

    checkpoints.ask('["A"] in A', "retry")
    balances(evolve=forgive).inline(source, database_url, rules=rules).drain(advance=True)
    assert rows(database_url, TOTALS) == [("A", 13, 3), ("B", 9, 1)]
    assert list(checkpoints.parked()) == []


@pytest.mark.parametrize("seed", seeds(2, 5))
def test_table_is_the_fold_of_the_log_after_random_failures(database_url: str, seed: int) -> None:
    chance, source = Random(seed), MemorySource("0", "1")

    def fail_sometimes(balance: Balance, event: StreamEvent) -> Balance | None:
        if chance.random() < 0.1:
            balance.total += 10_000  # A failed fold leaves no mark.
            raise ValueError("by chance")
        return book(balance, event)

    expected: dict[str, list[int]] = {}
    for _ in range(3):
        for _ in range(40):
            name, amount = f"S{chance.randrange(8)}", chance.randrange(100)
            source.append(name, [amount], tranche=str(int(name[1:]) % 2))
            expected.setdefault(name, []).append(amount)
        with balances(evolve=fail_sometimes).local(source, database_url, rules=RULES) as running:
            running.wait_until_caught_up(300)
    assert rows(database_url, TOTALS) == [(name, sum(found), len(found)) for name, found in sorted(expected.items())]


def test_processors_that_begin_at_once_all_find_their_table(database_url: str) -> None:
    together = threading.Barrier(8)

    def begin(projection: Projection[Any]) -> None:
        together.wait(300)
        projection.inline(MemorySource(), database_url)

    with ThreadPoolExecutor(8) as threads:
        for number in range(examples(2, 5)):
            list(threads.map(begin, [Projection(f"counts_{number}", Balance, book, key=by_stream)] * 8))
            assert rows(database_url, f"SELECT total FROM counts_{number}") == []


def test_rows_of_a_refused_commit_are_folded_again_from_the_stored_state(tmp_path: Path) -> None:
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
    source.append("S", [1, 2])
    running = balances().inline(source, connect, rules=RULES)
    running.drain()
    source.append("S", [10])
    is_refused = True
    running.drain(advance=True)
    assert not is_refused
    assert rows(f"sqlite:///{tmp_path}/refused.db", "SELECT total, entries FROM balances") == [(13, 3)]


# Definitions.


@dataclass
class Words:
    """A state with a field that JSON cannot have."""

    LIMIT: ClassVar[int] = 9
    last: object = None
    counts: dict[str, complex] = field(default_factory=dict)


@dataclass
class Named:
    """A state that has no initial value."""

    name: str


class Total(NamedTuple):
    Total: int


def by_total(event: StreamEvent) -> Total:
    return Total(event.index)


def unannotated(event: Any):  # type: ignore[no-untyped-def]
    return event.key


def state_with(name: str, kind: Any, **default: Any) -> type:
    return make_dataclass("State", [(name, kind, field(**default))])


LONG = "ä" * 31 + "bc"
KEYLESS = r"allowed: dicts that say what keys they have, texts, numbers"
UNFIT: dict[str, tuple[Callable[[], object], str]] = {
    "no class": (lambda: Projection("b", dict, book), r"state is 'dict'; allowed: a dataclass or a msgspec\.Struct"),  # type: ignore[arg-type]
    "key without annotation": (
        lambda: Projection("b", Balance, book, key=unannotated),
        "key is 'unannotated'; allowed: a function annotated to return",
    ),
    "name": (lambda: Projection("no name", Balance, book), "name is 'no name'; allowed: letters, digits and _"),
    "long name": (lambda: Projection("ä" * 30 + "a", Balance, book), r"allowed: up to 63 bytes with `_v1` behind it"),
    "column twice": (
        lambda: Projection("b", Balance, book, key=by_total),
        "state is 'total'; allowed: columns of different names in key and state",
    ),
    "long column": (
        lambda: Projection("wide", state_with(LONG, int, default=0), keep),
        f"state is '{LONG}'; allowed: names of up to 63 bytes, as PostgreSQL has",
    ),
    "complex": (
        lambda: Projection("words", Words, keep),
        r"state is 'Words.counts: dict.* allowed: fields that can be columns, or JSON",
    ),
    **{
        str(kind): (lambda kind=kind: Projection("p", state_with("at", kind, default_factory=dict), keep), KEYLESS)
        for kind in (dict[tuple[int, int], int], dict, dict[Any, int])
    },
    "evolve": (
        lambda: Projection("b", Balance, unannotated),  # type: ignore[arg-type]
        r"evolve is 'unannotated\(event\)'; allowed: .* takes \(state, event\)",
    ),
    "key of two": (
        lambda: Projection("b", Balance, book, key=book),
        r"key is 'book\(balance, event\)'; allowed: a function that takes \(event\)",
    ),
    "initial": (
        lambda: Projection("names", Named, keep), r"initial is 'Named\(name\)'; allowed: .* takes no arguments",
    ),
    "version": (lambda: Projection("b", Balance, book, version=0), "version is 0; allowed: a whole number from 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_definition_that_cannot_be_a_table_is_refused(name: str) -> None:
    make, told = UNFIT[name]
    with pytest.raises(BadParameter, match=told):
        make()
    Projection("ä" * 30, Balance, book)  # The longest name.


def by_number(event: StreamEvent) -> Any: ...


by_number.__annotations__["return"] = NamedTuple("Number", [("number", int)])
LONGER = make_dataclass("Longer", [("largest", float, 0.0)], bases=(Balance,))
OTHER_VERSIONS = {
    "columns": (Balance, by_stream, LONGER, by_stream, "the columns key (TEXT|text), t"),
    "key": (
        state_with("number", int, default=0), by_stream, state_with("key", str, default=""), by_number,
        r"the columns PRIMARY KEY \(key\)$",
    ),
    **{
        f"{before.__name__} to {after.__name__}": (
            state_with("amount", before | None, default=None), by_stream,
            state_with("amount", after | None, default=None), by_stream, "the columns amount ",
        )
        for before, after in
        ((int, float), (str, int), (str, dt.datetime), (str, Decimal), (str, list))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_VERSIONS)
def test_definition_with_other_columns_needs_another_version(database_url: str, name: str) -> None:
    before, key, after, other_key, told = OTHER_VERSIONS[name]
    for _ in range(2):  # The same is taken for the same.
        Projection("kept", before, keep, key=key).inline(MemorySource(), database_url)
    changed = Projection("kept", after, keep, key=other_key)
    for use in (lambda: changed.inline(MemorySource(), database_url), lambda: changed.switch(database_url)):
        with pytest.raises(BadParameter, match=f"another version: this one has a table kept_v1 with {told}"):
            use()


# Versions.


def test_version_is_built_beside_the_shown_one_and_switched_to(database_url: str) -> None:
    def double(balance: Balance, event: StreamEvent) -> Balance:
        balance.total += 2 * event.data
        return balance

    source, second = accounts(A=[5]), balances(2, double)
    balances().inline(source, database_url).drain()
    second.inline(source, database_url).drain()
    assert rows(database_url, "SELECT total FROM balances") == [(5,)]
    second.switch(database_url)
    assert rows(database_url, "SELECT total FROM balances") == [(10,)]
    source.append("A", [1])
    balances().inline(source, database_url).drain()
    assert rows(database_url, "SELECT total FROM balances") == [(10,)], "the old one goes on beside it"
    assert rows(database_url, "SELECT total FROM balances_v1") == [(6,)]


def test_version_behind_the_shown_one_is_switched_to_only_on_demand(database_url: str) -> None:
    source, checkpoints = MemorySource("a", "b"), DatabaseCheckpoints(database_url, "balances_v2")
    for tranche in ("a", "b"):
        for _ in range(12):
            source.append(f"S-{tranche}", [5], tranche=tranche)
    balances().inline(source, database_url).drain()
    second = balances(version=2)
    processor = second.inline(source, database_url)
    with pytest.raises(ProjectionBehind, match=r"balances_v2 is behind .* \{'a': 'not begun, of 12', 'b': 'not begun"):
        second.switch(database_url, timeout=0)
    processor.drain()
    checkpoints.move({"b": 9})
    with pytest.raises(ProjectionBehind, match=r"behind balances_v1, which is in use: \{'b': 'at 9 of 12'\}"):
        second.switch(database_url, timeout=0.1)
    second.switch(database_url, even_if_behind=True)
    checkpoints.move({"b": 12})
    balances().switch(database_url)  # And back: it is as far.
    second.switch(database_url)
    second.switch(database_url)


def test_switch_waits_for_a_version_that_is_behind(database_url: str) -> None:
    source, second = accounts(S=[5]), balances(version=2)
    balances().inline(source, database_url).drain()
    processor = second.inline(source, database_url)
    with ThreadPoolExecutor(1) as threads:
        switching = threads.submit(second.switch, database_url)
        time.sleep(0.2)
        assert not switching.done()
        processor.drain()
        switching.result(300)
    assert "balances_v2" in view(database_url)


def test_name_that_differs_only_in_case_is_refused_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/read.db"
    balances().inline(MemorySource(), url)
    with pytest.raises(BadParameter, match="name is 'Balances'; allowed: one that the database has no view of"):
        Projection("Balances", Balance, book, key=by_stream).inline(MemorySource(), url)
    assert [name for (name,) in rows(url, "SELECT name FROM sqlite_master WHERE type = 'view'")] == ["balances"]


def test_column_named_like_a_version_is_not_taken_for_it(database_url: str) -> None:
    def counted(counts: Any, _: StreamEvent) -> Any:
        return type(counts)(counts.balances_v2 + 1)

    counts = make_dataclass("Counts", [("balances_v2", int, 0)])
    source = MemorySource("a", "b")
    for tranche in ("a", "b"):
        source.append(f"S-{tranche}", [1], tranche=tranche)
    first, second = (Projection("balances", counts, counted, key=by_stream, version=each) for each in (1, 2))
    first.inline(source, database_url).drain()
    second.inline(source, database_url)
    with pytest.raises(ProjectionBehind, match="balances_v2 is behind balances_v1"):
        second.switch(database_url, timeout=0)


def test_grants_on_the_view_survive_a_switch(postgres_url: str) -> None:
    source, others = MemorySource(), make_dataclass("Other", [("other", int, 0), ("total", int, 0)])
    source.append("S", [5])
    more = make_dataclass("More", [("total", int, 0), ("entries", int, 0), ("notes", list[str], ()), ("more", int, 0)])
    versions = [
        balances(),
        Projection("balances", more, keep, key=by_stream, version=2),
        Projection("balances", others, keep, key=by_stream, version=3),
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


def test_view_with_dependents_is_switched_only_if_it_keeps_its_columns(
    postgres_url: str,
) -> None:
    source = accounts(S=[5])
    other = Projection("balances", make_dataclass("Other", [("other", int, 0)]), keep, key=by_stream, version=3)
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
    assert "balances_v2" in view(postgres_url)


def test_version_with_parked_rows_counts_as_behind(database_url: str) -> None:
    def stubborn(balance: Balance, event: StreamEvent) -> Balance | None:
        if event.data == 7:
            raise ValueError("seven")
        return book(balance, event)

    source = MemorySource()
    for amount in (5, 7, 5):
        source.append("S", [amount])
    balances().inline(source, database_url).drain()
    second = balances(2, stubborn)
    second.inline(source, database_url, rules=ONCE).drain()
    with pytest.raises(ProjectionBehind, match=r"'0': 'at [01] of 3'"):
        second.switch(database_url, timeout=0)


@pytest.mark.parametrize(
    ("kind", "made"),
    [("table", "CREATE TABLE balances (mine integer)"), ("view", "CREATE VIEW balances AS SELECT 1 AS mine")],
)
def test_foreign_table_or_view_with_the_name_of_the_view_is_refused_and_left_alone(
    database_url: str, kind: str, made: str
) -> None:
    balances().inline(MemorySource(), database_url)
    execute(database_url, "DROP VIEW balances", made)
    before = rows(database_url, "SELECT mine FROM balances")

    told = f"name is 'balances'; allowed: one that the database has no {kind} of"
    for use in (
        lambda: balances(version=2).inline(MemorySource(), database_url),
        lambda: balances().switch(database_url),
        lambda: balances().switch(database_url, even_if_behind=True),
    ):
        with pytest.raises(BadParameter, match=told):
            use()
    assert rows(database_url, "SELECT mine FROM balances") == before


def test_switch_to_a_version_that_was_never_built_is_refused(database_url: str) -> None:
    source = accounts(A=[5])
    balances().inline(source, database_url).drain()
    with pytest.raises(ProjectionNotFound, match="the database has no rows of balances_v9"):
        balances(version=9).switch(database_url)
    assert rows(database_url, "SELECT total FROM balances") == [(5,)]


def test_switch_in_a_missing_file_creates_none(tmp_path: Path) -> None:
    with pytest.raises(ProjectionNotFound, match="the database has no rows of balances_v1"):
        balances().switch(f"sqlite:///{tmp_path}/nodb.db")
    assert [*tmp_path.iterdir()] == []


def test_handler_that_waits_for_its_row_goes_on_after_a_switch(database_url: str) -> None:
    """Version 1 is folded no further: who reads its table waits for ever. A row that is deleted is waited for, too."""
    source, read = accounts(A=[5]), list[tuple[str, int | None]]()
    balances().inline(source, database_url).drain()

    def check(stream: str, events: Any) -> Any:
        with closing(connect(database_url)) as connection:
            row, positions = current_row(connection, "balances", key=stream)
        if positions.get(stream, 0) < events[-1].next:
            return retry(60)
        read.append((stream, row and row["total"]))
        return None

    second = balances(version=2).inline(source, database_url)
    with closing(connect(database_url)) as connection:
        assert current_row(connection, "balances", key="nobody") == (None, {})
    waiting = InlineProcessor(check, source)
    waiting.drain()
    source.append("A", [7])
    source.append("B", [1, None])
    waiting.drain()
    assert read == [("A", 5)]
    second.drain()
    balances(version=2).switch(database_url)
    waiting.advance(60)
    waiting.drain()
    assert read == [("A", 5), ("A", 12), ("B", None)]


def test_current_row_refuses_a_missing_projection_and_other_key_columns(database_url: str) -> None:
    with (
        closing(connect(database_url)) as connection,
        pytest.raises(ProjectionNotFound, match="has no rows of balances"),
    ):
        current_row(connection, "balances", key="A")
    balances().inline(MemorySource(), database_url).drain()
    with (
        closing(connect(database_url)) as connection,
        pytest.raises(BadParameter, match=r"the columns of the key: \['key'\]"),
    ):
        current_row(connection, "balances", account="A")
