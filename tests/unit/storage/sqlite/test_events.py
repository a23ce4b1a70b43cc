import sqlite3
from array import array
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from penstock.storage.log.events import CHUNK_BYTES, Block, Frame
from penstock.storage.sqlite.log import events
from penstock.storage.sqlite.log.events import SIZE_MAX, SqliteLog
from penstock.storage.sqlite.store import SqliteStore
from tests.store_contract.database import FIRST_AT, append, created, purge, row

JOINED = Frame("", "\n", "")


class Counting(sqlite3.Connection):
    """Counts the statements that it is given."""

    statements = 0

    def execute(self, *given: Any) -> sqlite3.Cursor:
        self.statements += 1
        return super().execute(*given)


@pytest.fixture
def connection(store: SqliteStore) -> Iterator[Counting]:
    with closing(sqlite3.connect(store.path, isolation_level=None, factory=Counting)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * CHUNK_BYTES)
        yield connection


@pytest.mark.parametrize(("rows", "most"), [(1, 1), (1024, 1), (1000, 10), (5000, 14)])
def test_append_takes_few_statements(store: SqliteStore, connection: Counting, rows: int, most: int) -> None:
    """At every statement Python lets other threads go first."""
    [partition_id] = created(store).partition_ids

    SqliteLog(connection).append([row(partition_id, n) for n in range(rows)])

    assert connection.statements <= most


@pytest.mark.parametrize("blocks", [1, 50, 3000])
def test_range_that_fits_takes_three_statements(store: SqliteStore, connection: Counting, blocks: int) -> None:
    [partition_id] = created(store).partition_ids
    rows = [row(partition_id, 0).rows[0]] * (3000 // blocks)
    append(store, *(Block(partition_id, len(rows) * n, FIRST_AT + n, rows) for n in range(blocks)))

    SqliteLog(connection).read_lines(partition_id, 0, 3000, JOINED, None)
    SqliteLog(connection).read_columns(partition_id, 0, 3000)

    assert connection.statements == 1 + 2


def test_only_a_range_that_does_not_fit_is_measured(store: SqliteStore, connection: Counting) -> None:
    [partition_id] = created(store).partition_ids
    append(store, *(row(partition_id, n, b"x" * 900_000) for n in range(8)))

    found = SqliteLog(connection).read_lines(partition_id, 0, 8, JOINED, None)

    assert 0 < found.scanned < 8
    assert connection.statements == 3


def test_event_larger_than_a_chunk_is_read_alone(
    store: SqliteStore, connection: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CHUNK_BYTES", 300_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
    [partition_id] = created(store).partition_ids
    append(store, *(row(partition_id, n, b"x" * 600_000) for n in range(3)))

    for start in range(3):
        lines = SqliteLog(connection).read_lines(partition_id, start, 3, JOINED, None)
        columns = SqliteLog(connection).read_columns(partition_id, start, 3)
        assert (lines.stop, lines.scanned, lines.body) == (start + 1, 1, b"x" * 600_000)
        assert (columns.stop, columns.rows, columns.data) == (start + 1, 1, b"x" * 600_000)


def test_event_beyond_the_size_that_can_be_recorded_is_refused(store: SqliteStore) -> None:
    [partition_id] = created(store).partition_ids
    append(store, row(partition_id, 0, b"x" * SIZE_MAX))

    with pytest.raises(ValueError, match="more than 1114108 bytes"):
        append(store, row(partition_id, 1, b"x" * (SIZE_MAX + 1)))

    with store.read() as tx:
        assert tx.log.read_columns(partition_id, 0, 2).sizes == array("i", [SIZE_MAX]).tobytes()


@pytest.mark.parametrize("blocks", [2, 100])
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("after", [1, 2])
def test_events_removed_between_two_statements_are_missing(
    store: SqliteStore, blocks: int, key: str | None, after: int
) -> None:
    """Their times would else be those of others."""
    [partition_id] = created(store).partition_ids
    append(store, *(row(partition_id, n, key=key) for n in range(blocks)))
    with store.write() as tx:
        tx.registry.delete("order.placed")

    class Purging(sqlite3.Connection):
        looks = 0

        def execute(self, *given: Any) -> sqlite3.Cursor:
            if self.looks == after:
                purge(store, blocks // 2)
            self.looks += 1
            return super().execute(*given)

    with closing(sqlite3.connect(store.path, isolation_level=None, factory=Purging)) as connection:
        found = SqliteLog(connection).read_columns(partition_id, 0, blocks)

    assert found.rows < blocks or connection.looks == after


def test_partition_is_full_at_the_last_offset(store: SqliteStore) -> None:
    [partition_id] = created(store).partition_ids
    one = (None, None, None, b"{}")

    with pytest.raises(ValueError, match="offsets of a partition"), store.write() as tx:
        tx.log.append([Block(partition_id, (1 << 40) - 1, FIRST_AT, [one, one])])

    with store.write() as tx:
        tx.log.append([Block(partition_id, (1 << 40) - 1, FIRST_AT, [one])])
    with store.read() as tx:
        assert tx.log.find_heads([partition_id])[partition_id].next_offset == 1 << 40
