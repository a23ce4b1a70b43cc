"""Event types and their partitions in SQLite."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from penstock.core.event_type import EventType, Feed
from penstock.errors import EventTypeExists
from penstock.storage.feed_row import feed_of
from penstock.storage.statements import statement

_sql: Final = partial(statement, __package__)
_json: Final = msgspec.json.encode


class SqliteFeeds:
    """See `penstock.storage.store.Feeds`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, name: str) -> Feed | None:
        """See `Feeds.find`."""
        found = self._connection.execute(_sql("find_feeds"), {"name": name}).fetchall()
        return feed_of(found[0]) if found else None

    def list(self) -> Sequence[Feed]:
        """See `Feeds.list`."""
        return [feed_of(row) for row in self._connection.execute(_sql("find_feeds"), {"name": None}).fetchall()]

    def insert(self, event_type: EventType, at: int) -> None:
        """See `Feeds.insert`."""
        if self.find(event_type.name) is not None:
            raise EventTypeExists(event_type=event_type.name)
        (epoch,) = self._connection.execute(_sql("raise_epoch"), {"name": event_type.name}).fetchone()
        given = {
            "name": event_type.name,
            "category": event_type.category,
            "epoch": epoch,
            "definition": _json(event_type.definition).decode(),
            "at": at,
        }
        (event_type_id,) = self._connection.execute(_sql("insert_event_type"), given).fetchone()
        self._add_partitions(event_type_id, range(event_type.partition_count))
        schema = event_type.definition["schema"]
        kept = {"event_type_id": event_type_id, "version": schema["version"], "definition": _json(schema).decode()}
        self._connection.execute(_sql("insert_schema"), kept)

    def lock(self, name: str) -> Feed | None:
        """See `Feeds.lock`: there is one writer at a time anyway."""
        return self.find(name)

    def update(self, feed: Feed, event_type: EventType, at: int) -> None:
        """See `Feeds.update`."""
        given = {
            "id": feed.id,
            "category": event_type.category,
            "definition": _json(event_type.definition).decode(),
            "at": at,
        }
        self._connection.execute(_sql("update_event_type"), given)
        self._add_partitions(feed.id, range(feed.partition_count, event_type.partition_count))

    def _add_partitions(self, event_type_id: int, numbers: range) -> None:
        given = {"event_type_id": event_type_id, "numbers": _json(list(numbers)).decode()}
        self._connection.execute(_sql("insert_partitions"), given)

    def delete(self, name: str) -> bool:
        """See `Feeds.delete`."""
        self._connection.execute(_sql("drop_partitions"), {"name": name})
        self._connection.execute(_sql("delete_positions"), {"source": name})
        return self._connection.execute(_sql("delete_event_type"), {"name": name}).rowcount > 0

    def raise_epochs(self) -> int:
        """See `Feeds.raise_epochs`."""
        self._connection.execute(_sql("restore_epochs"))
        return self._connection.execute(_sql("restore_event_types")).rowcount

    def purge(self, rows: int) -> int:
        """See `Feeds.purge`."""
        removed = self._connection.execute(_sql("purge_events"), {"rows": rows}).rowcount
        if removed < rows:
            removed += self._connection.execute(_sql("purge_partition")).rowcount
        return removed
