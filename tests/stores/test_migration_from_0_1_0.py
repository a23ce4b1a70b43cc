"""A database of 0.1.0 is migrated: event types get schema versions, and events in SQLite are kept by place."""

import json
import sqlite3
from contextlib import closing
from itertools import takewhile

import psycopg
import pytest

from penstock.storage import open_store
from penstock.storage.log.events import Block, Frame
from penstock.storage.postgres import POSTGRES
from penstock.storage.sqlite import SQLITE
from penstock.storage.sqlite.log.events import BEGINS

STORED = """
CREATE TABLE penstock_migration (number integer PRIMARY KEY, name text NOT NULL);
INSERT INTO penstock_migration VALUES (1, 'log');
INSERT INTO penstock_event_type (name, category, epoch, revision, definition, created_at, updated_at)
VALUES ('a', 'undefined', 1, 1, '{"name": "a", "category": "UNDEFINED"}', 1474644913273000, 7);
INSERT INTO penstock_partition (event_type_id, number, floor) VALUES (1, 0, 0), (1, 1, 5);
"""
"""An event type with two partitions, of which one has begun to forget."""
EVENTS = [(1, 0, "a" * 5_000), (1, 1, "b"), (2, 5, "c"), (2, 6, "d" * 3_000)]


def make(url: str) -> None:
    """Make the tables as 0.1.0 did, and in SQLite some events."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(SQLITE.migrations[0].sql + STORED)
            rows = [(partition, n, f"{BEGINS}{chr(len(data))}", data) for partition, n, data in EVENTS]
            connection.executemany("INSERT INTO penstock_event VALUES (?, ?, 9, ?, 'k', NULL, NULL, ?)", rows)
            connection.commit()
    else:
        with psycopg.connect(url) as session:
            session.execute(POSTGRES.migrations[0].sql + STORED)


def test_event_type_without_a_schema_gets_a_first_version_that_allows_all(database_url: str) -> None:
    make(database_url)

    with closing(open_store(database_url)) as store:
        store.migrate()
        with store.read() as tx:
            feed = tx.registry.get("a")
            kept = tx.registry.list_schemas(feed, limit=9, offset=0)

    first = {"type": "json_schema", "schema": "{}", "version": "1.0.0", "created_at": "2016-09-23T15:35:13.273Z"}
    assert kept == [first]
    assert feed.event_type.schema_version == "1.0.0"
    assert json.loads(feed.event_type.definition["schema"]["schema"]) == {}


def test_migrated_events_keep_their_offsets_and_cannot_be_changed_and_the_log_continues(sqlite_url: str) -> None:
    make(sqlite_url)

    with closing(open_store(sqlite_url)) as store:
        assert store.migrate()[0] == "0002 registry"

        with store.write() as tx:
            heads = tx.log.find_heads([1, 2], lock=True)
            tx.log.append([Block(2, 7, 10, [("k", None, None, b"e")])])
        assert {each: (head.floor, head.next_offset) for each, head in heads.items()} == {1: (0, 2), 2: (5, 7)}
        with store.read() as tx:
            bodies = [tx.log.read_lines(*range_, Frame("", "\n", ""), None).body for range_ in ((1, 0, 2), (2, 5, 8))]

    assert bodies == [b"a" * 5_000 + b"\nb", b"c\n" + b"d" * 3_000 + b"\ne"]
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        for change in ("UPDATE penstock_event SET data = ''", "DELETE FROM penstock_event WHERE partition_id = 1"):
            with pytest.raises(sqlite3.IntegrityError, match="penstock: events are"):
                connection.execute(change)


BATCHES = """
INSERT INTO penstock_event_type (name, category, epoch, revision, definition, created_at, updated_at)
VALUES ('a', 'undefined', 1, 1, '{}', 1, 1);
INSERT INTO penstock_batch (event_type_id, "group", number, query, chunks, done, events, rejected, offsets, begun_at,
                            updated_at, partitions, epoch)
VALUES (1, 'of uploads', 0, 'q', 1, 0, 0, 0, '{}', 1, 1, NULL, NULL),
       (1, 'begun', 0, 'q', 1, 0, 0, 0, '{}', 1, 1, 2, 7), (1, 'done', 0, 'q', 1, 1, 9, 0, '{}', 1, 1, 2, 7);
INSERT INTO penstock_upload (name, event_type_id, "group", number, query, batch_id, place, updated_at)
VALUES ('taken', 1, 'of uploads', 0, 'q', 1, 0, 1), ('waits', 1, 'of uploads', 1, 'q', NULL, NULL, 1);
"""


def test_batch_in_progress_keeps_its_uploads_and_one_that_its_tasks_published_is_forgotten(database_url: str) -> None:
    steps = (SQLITE if database_url.startswith("sqlite") else POSTGRES).migrations
    before = list(takewhile(lambda step: step.name != "batches", steps))
    applied = ", ".join(f"({step.number}, '{step.name}')" for step in before)
    made = "CREATE TABLE penstock_migration (number integer PRIMARY KEY, name text NOT NULL);"
    script = "".join(step.sql for step in before) + f"{made} INSERT INTO penstock_migration VALUES {applied};" + BATCHES
    if database_url.startswith("sqlite"):
        with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(database_url) as session:
            session.execute(script)

    with closing(open_store(database_url)) as store:
        assert store.migrate()[0].endswith("batches")
        with store.read() as tx:
            events = {
                group: [each.events for each in tx.batches.list(1, group)] for group in ("of uploads", "begun", "done")
            }
            uploads = [tx.batches.find_upload("a", name) for name in ("taken", "waits")]

    assert events == {"of uploads": [0], "begun": [], "done": [9]}
    assert [each and each.batch_id for each in uploads] == [1, None]
