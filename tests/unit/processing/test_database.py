"""Plans are carried out on the consumer's connection, in the consumer's transactions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadParameter
from penstock.processing.database import AsyncDatabase, Database, Plan, Step

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
