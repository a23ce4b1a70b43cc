"""A log that 0.1.0 has made is whole, and goes on, after the migration that keeps events by place."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.storage import open_store
from penstock.storage.log.events import Block, Frame
from penstock.storage.sqlite import SQLITE
from penstock.storage.sqlite.log.events import BEGINS
from penstock.testing.factories import an_event_type

EVENTS = [(1, 0, "a" * 5_000), (1, 1, "b"), (2, 5, "c"), (2, 6, "d" * 3_000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database as 0.1.0 has left it: with events of two partitions, of which one has begun to forget."""
    path = tmp_path / "hub.db"
    first = SQLITE.migrations[0]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(first.sql)
        connection.execute("CREATE TABLE penstock_migration (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        connection.execute("INSERT INTO penstock_migration VALUES (1, ?)", (first.name,))
        connection.execute(
            "INSERT INTO penstock_event_type VALUES (1, 'a', 'undefined', 1, 1, ?, 7, 7)",
            (f'{{"name": "a", "category": "{an_event_type("a")["category"]}"}}',),
        )
        connection.executemany("INSERT INTO penstock_partition VALUES (?, 1, ?, ?)", [(1, 0, 0), (2, 1, 5)])
        connection.executemany(
            "INSERT INTO penstock_event VALUES (?, ?, 9, ?, 'k', NULL, NULL, ?)",
            [(partition, offset, f"{BEGINS}{chr(len(data))}", data) for partition, offset, data in EVENTS],
        )
        connection.commit()
    return path


def test_migrated_events_keep_their_offsets_and_the_log_continues(path: Path) -> None:
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert store.migrate()[0] == "0002 registry"

        with store.write() as tx:
            heads = tx.log.find_heads([1, 2], lock=True)
            tx.log.append([Block(2, 7, 10, [("k", None, None, b"e")])])
        assert {each: (head.floor, head.next_offset) for each, head in heads.items()} == {1: (0, 2), 2: (5, 7)}
        with store.read() as tx:
            bodies = [tx.log.read_lines(*range_, Frame("", "\n", ""), None).body for range_ in ((1, 0, 2), (2, 5, 8))]

    assert bodies == [b"a" * 5_000 + b"\nb", b"c\n" + b"d" * 3_000 + b"\ne"]


def test_triggers_keep_migrated_events_unchanged(path: Path) -> None:
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.migrate()

    with closing(sqlite3.connect(path)) as connection:
        for change in ("UPDATE penstock_event SET data = ''", "DELETE FROM penstock_event WHERE partition_id = 1"):
            with pytest.raises(sqlite3.IntegrityError, match="penstock: events are"):
                connection.execute(change)
