"""Plans are carried out on the consumer's connection, in the consumer's transactions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter, WrongTransaction
from penstock.processing.database import AsyncDatabase, Database, Plan, Step
from tests.failing import has_code

PARTITION = {"feed": "orders", "consumer": "billing", "partition": 0}


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        Database(connection, "seen").create("seen_create")
        yield connection


def add(*eids: str) -> Plan[list[str]]:
    batch = f"[[0, {list(eids)!r}]]".replace("'", '"')
    rows = yield Step("seen_add", {"feed": "orders", "consumer": "billing", "batch": batch, "now": 1}, finds=True)
    yield Step("seen_drop_beyond", [{**PARTITION, "events": 100}, {**PARTITION, "partition": 1, "events": 100}])
    return sorted(eid for (eid,) in rows)


def test_plan_receives_the_rows_that_its_steps_find(connection: sqlite3.Connection) -> None:
    database = Database(connection, "seen")

    assert database.carry_out(add("a", "b")) == ["a", "b"]
    assert database.carry_out(add("b", "c")) == ["c"]


def test_driver_that_begins_transactions_by_itself_is_left_to_it(connection: sqlite3.Connection) -> None:
    Database(connection, "seen").carry_out(add("a"))

    assert connection.in_transaction
    connection.rollback()
    assert Database(connection, "seen").carry_out(add("a")) == ["a"]


def test_nothing_is_written_outside_a_transaction(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None
    database = Database(connection, "seen")

    with pytest.raises(WrongTransaction, check=has_code("outside-transaction"), match="commits each statement at once"):
        database.carry_out(add("a"))
    connection.execute("BEGIN")
    assert database.carry_out(add("a")) == ["a"]


def test_reading_needs_no_transaction(connection: sqlite3.Connection) -> None:
    connection.isolation_level = None

    def find() -> Plan[int]:
        return len((yield Step("seen_find", {"consumer": "billing", "eids": "[]", "since": 0}, finds=True)))

    assert Database(connection, "seen").carry_out(find(), writes=False) == 0


def test_row_and_text_factories_of_the_service_do_not_matter(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes

    assert Database(connection, "seen").carry_out(add("ø")) == ["ø"]


def test_failed_plan_leaves_the_transaction_to_its_owner(connection: sqlite3.Connection) -> None:
    def fail() -> Plan[None]:
        yield from add("a")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Database(connection, "seen").carry_out(fail())

    assert connection.in_transaction


@pytest.mark.parametrize("kind", [Database, AsyncDatabase], ids=lambda kind: kind.__name__)
def test_connection_of_another_kind_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"is wanted, not a builtins\.dict"):
        kind({}, "seen")


def test_table_name_is_a_name(connection: sqlite3.Connection) -> None:
    with pytest.raises(BadParameter, match="table"):
        Database(connection, "seen; DROP TABLE seen")


def test_table_can_be_in_an_attached_database(tmp_path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("ATTACH ? AS other", [str(tmp_path / "other.db")])
    database = Database(connection, "other.seen")
    database.create("seen_create")

    assert database.carry_out(add("a")) == ["a"]
    assert Database(connection, "seen").carry_out(add("a")) == ["a"]
