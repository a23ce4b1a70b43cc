"""A database of 0.1.0 is migrated: its event types get schema versions."""

import json
import sqlite3
from contextlib import closing

import psycopg

from penstock.storage import open_store
from penstock.storage.postgres import POSTGRES
from penstock.storage.sqlite import SQLITE

STORED = """
CREATE TABLE penstock_migration (number integer PRIMARY KEY, name text NOT NULL);
INSERT INTO penstock_migration VALUES (1, 'log');
INSERT INTO penstock_event_type (name, category, epoch, revision, definition, created_at, updated_at)
VALUES ('a', 'undefined', 1, 1, '{"name": "a", "category": "UNDEFINED"}', 1474644913273000, 7);
INSERT INTO penstock_partition (event_type_id, number) VALUES (1, 0);
"""


def make(url: str) -> None:
    """Make the tables as 0.1.0 did, and an event type with a partition in them."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(SQLITE.migrations[0].sql + STORED)
    else:
        with psycopg.connect(url) as session:
            session.execute(POSTGRES.migrations[0].sql + STORED)


def test_event_type_without_a_schema_gets_a_first_version_that_allows_all(database_url: str) -> None:
    make(database_url)

    with closing(open_store(database_url)) as store:
        store.migrate()
        with store.read() as tx:
            feed = tx.registry.find("a")
            assert feed is not None
            kept = tx.registry.list_schemas(feed, limit=9, offset=0)

    first = {"type": "json_schema", "schema": "{}", "version": "1.0.0", "created_at": "2016-09-23T15:35:13.273Z"}
    assert kept == [first]
    assert feed.event_type.schema_version == "1.0.0"
    assert json.loads(feed.event_type.definition["schema"]["schema"]) == {}
