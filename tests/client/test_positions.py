"""Cursors lie in the consumer's own database, as part of the consumer's own transactions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import class_row, dict_row

from penstock.client import AsyncCursorTable, CursorTable, Page
from penstock.errors import BadParameter, CursorMoved


@pytest.fixture(params=["sqlite", "psycopg"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Opens connections to one database."""
    if request.param == "sqlite":
        return lambda: closing(sqlite3.connect(tmp_path / "consumer.db", timeout=5))
    url = request.getfixturevalue("postgres_url")
    return lambda: psycopg.connect(url)


@pytest.fixture
def connection(connect: Any) -> Iterator[Any]:
    """A connection to a database that has the table."""
    with connect() as connection:
        CursorTable(connection).create()
        connection.commit()
        yield connection


def page(since: dict[int, str], cursors: dict[int, str]) -> Page:
    return Page([], cursors, since)


def test_what_was_stored_is_loaded(connection: Any) -> None:
    table = CursorTable(connection)

    assert table.load("orders", "billing") == {}
    table.store("orders", "billing", {0: "a", 1: "b"})
    table.store("orders", "billing", {1: "c"})
    table.store("orders", "mail", {0: "x"})
    table.store("parcels", "billing", {0: "y"})

    assert table.load("orders", "billing") == {0: "a", 1: "c"}


def test_the_table_can_be_created_again_and_bear_another_name(connection: Any) -> None:
    CursorTable(connection).create()
    other = CursorTable(connection, table="read_until")
    other.create()
    other.store("orders", "billing", {0: "a"})

    assert other.load("orders", "billing") == {0: "a"}
    assert CursorTable(connection).load("orders", "billing") == {}


def test_cursors_share_the_fate_of_the_transaction(connect: Any, connection: Any) -> None:
    table = CursorTable(connection)
    table.store("orders", "billing", {0: "a"})
    connection.commit()

    table.store("orders", "billing", {0: "b"})
    table.advance("orders", "billing", page({0: "b"}, {0: "c"}))
    with connect() as other:
        assert CursorTable(other).load("orders", "billing") == {0: "a"}
    connection.rollback()

    assert table.load("orders", "billing") == {0: "a"}


def test_a_page_moves_the_cursors_from_where_it_was_read(connection: Any) -> None:
    table = CursorTable(connection)

    table.advance("orders", "billing", page({0: "_first", 1: "_first"}, {0: "a", 1: "_first"}))
    table.advance("orders", "billing", page({0: "a", 1: "_first"}, {0: "b", 1: "x"}))

    assert table.load("orders", "billing") == {0: "b", 1: "x"}


def test_a_consumer_that_runs_twice_is_told_so_by_the_second_to_come(connect: Any, connection: Any) -> None:
    CursorTable(connection).store("orders", "billing", {0: "a"})
    connection.commit()
    first = second = page({0: "a"}, {0: "b"})

    with connect() as other:
        CursorTable(other).advance("orders", "billing", first)
        other.commit()
    with pytest.raises(CursorMoved, match="'billing' no longer stands at 'a' in partition 0"):
        CursorTable(connection).advance("orders", "billing", second)
    connection.rollback()

    assert CursorTable(connection).load("orders", "billing") == {0: "b"}


def test_two_that_begin_at_one_time_are_told_apart_too(connect: Any, connection: Any) -> None:
    start = page({0: "_first"}, {0: "b"})

    with connect() as other:
        CursorTable(other).advance("orders", "billing", start)
        other.commit()
    with pytest.raises(CursorMoved):
        CursorTable(connection).advance("orders", "billing", start)


def test_row_and_text_factories_of_the_service_do_not_matter(tmp_path: Path, postgres_url: str) -> None:
    with closing(sqlite3.connect(tmp_path / "consumer.db")) as lite:
        lite.row_factory = sqlite3.Row
        lite.text_factory = bytes
        use(lite)
    for factory in (dict_row, class_row(dict)):
        with psycopg.connect(postgres_url, row_factory=factory) as connection:
            use(connection)
    for cursor_factory in (psycopg.RawCursor, psycopg.ClientCursor):
        with psycopg.connect(postgres_url, cursor_factory=cursor_factory) as connection:
            use(connection)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        use(connection)


def use(connection: Any) -> None:
    table = CursorTable(connection)
    table.create()
    table.store("orders", "billing", {0: "a"})
    table.advance("orders", "billing", page({0: "a"}, {0: "ø"}))
    assert table.load("orders", "billing") == {0: "ø"}


class MyConnection(sqlite3.Connection):
    """A connection class of the service's own."""


def test_a_connection_class_derived_from_the_drivers_will_do() -> None:
    with closing(sqlite3.connect(":memory:", factory=MyConnection)) as connection:
        use(connection)


def test_another_kind_of_connection_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"sqlite3.Connection or psycopg.Connection is wanted, not a builtins.dict"):
        CursorTable({})


def test_a_table_name_is_a_name() -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(BadParameter, match="table"):
        CursorTable(connection, table="x; DROP TABLE orders")


@pytest.mark.anyio
async def test_an_async_connection_of_psycopg_is_awaited(postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url, row_factory=dict_row) as connection:
        table = AsyncCursorTable(connection)
        await table.create()
        await table.store("orders", "billing", {0: "a"})
        await table.advance("orders", "billing", page({0: "a"}, {0: "b"}))
        with pytest.raises(CursorMoved):
            await table.advance("orders", "billing", page({0: "a"}, {0: "b"}))

        assert await table.load("orders", "billing") == {0: "b"}
