"""Cursors are stored in the consumer's own database, as part of its transactions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import class_row, dict_row

from penstock.client import AsyncCursorTable, CursorTable, Page
from penstock.errors import BadParameter, PositionMoved
from tests.failing import has_code


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


def test_cursors_are_kept_by_feed_consumer_and_table(connection: Any) -> None:
    table = CursorTable(connection)

    assert table.load("orders", "billing") == {}
    table.store("orders", "billing", {0: "a", 1: "b"})
    table.store("orders", "billing", {1: "c"})
    table.store("orders", "mail", {0: "x"})
    table.store("parcels", "billing", {0: "y"})

    assert table.load("orders", "billing") == {0: "a", 1: "c"}

    CursorTable(connection).create()
    other = CursorTable(connection, table="read_until")
    other.create()
    other.store("orders", "billing", {0: "a"})

    assert other.load("orders", "billing") == {0: "a"}
    assert table.load("orders", "billing") == {0: "a", 1: "c"}


def test_cursors_are_rolled_back_with_the_transaction(connect: Any, connection: Any) -> None:
    table = CursorTable(connection)
    table.store("orders", "billing", {0: "a"})
    connection.commit()

    table.store("orders", "billing", {0: "b"})
    table.advance("orders", "billing", page({0: "b"}, {0: "c"}))
    with connect() as other:
        assert CursorTable(other).load("orders", "billing") == {0: "a"}
    connection.rollback()

    assert table.load("orders", "billing") == {0: "a"}


def test_page_advances_the_cursors_that_it_was_read_from(connection: Any) -> None:
    table = CursorTable(connection)

    table.advance("orders", "billing", page({0: "_first", 1: "_first"}, {0: "a", 1: "_first"}))
    table.advance("orders", "billing", page({0: "a", 1: "_first"}, {0: "b", 1: "x"}))

    assert table.load("orders", "billing") == {0: "b", 1: "x"}


@pytest.mark.parametrize("start", ["a", "_first"])
def test_second_of_two_consumers_that_advance_from_one_cursor_is_refused(
    connect: Any, connection: Any, start: str
) -> None:
    if start != "_first":
        CursorTable(connection).store("orders", "billing", {0: start})
    connection.commit()
    read = page({0: start}, {0: "b"})

    with connect() as other:
        CursorTable(other).advance("orders", "billing", read)
        other.commit()
    with pytest.raises(
        PositionMoved, check=has_code("cursor-moved"), match=f"'billing' is no longer at '{start}' in partition 0"
    ):
        CursorTable(connection).advance("orders", "billing", read)
    connection.rollback()

    assert CursorTable(connection).load("orders", "billing") == {0: "b"}


def test_row_text_and_cursor_factories_of_the_connection_do_not_matter(tmp_path: Path, postgres_url: str) -> None:
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
    """A connection class of a service."""


def test_connection_of_a_derived_class_is_taken_and_of_another_class_refused() -> None:
    with closing(sqlite3.connect(":memory:", factory=MyConnection)) as connection:
        use(connection)
        with pytest.raises(BadParameter, match="table"):
            CursorTable(connection, table="x; DROP TABLE orders")
    with pytest.raises(TypeError, match=r"sqlite3.Connection or psycopg.Connection is wanted, not a builtins.dict"):
        CursorTable({})


@pytest.mark.anyio
async def test_async_connection_of_psycopg_is_awaited(postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url, row_factory=dict_row) as connection:
        table = AsyncCursorTable(connection)
        await table.create()
        await table.store("orders", "billing", {0: "a"})
        await table.advance("orders", "billing", page({0: "a"}, {0: "b"}))
        with pytest.raises(PositionMoved, check=has_code("cursor-moved")):
            await table.advance("orders", "billing", page({0: "a"}, {0: "b"}))

        assert await table.load("orders", "billing") == {0: "b"}
