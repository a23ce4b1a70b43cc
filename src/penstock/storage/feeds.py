"""Event types and their partitions, in either database."""

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import EventTypeExists
from penstock.storage.feed_row import feed_of
from penstock.storage.statements import Statements


class SqlFeeds:
    """See `penstock.storage.store.Feeds`; nothing is locked here, as if there were one writer at a time."""

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run

    def find(self, name: str) -> StoredFeed | None:
        """See `Feeds.find`."""
        found = self._run("find_feeds", name=name).fetchall()
        return feed_of(found[0]) if found else None

    def list(self) -> Sequence[StoredFeed]:
        """See `Feeds.list`."""
        return [feed_of(row) for row in self._run("find_feeds", name=None).fetchall()]

    def insert(self, event_type: EventType, at: int) -> None:
        """See `Feeds.insert`."""
        # Whoever else creates this name waits here, and finds below what was created meanwhile.
        [(epoch,)] = self._run("raise_epoch", name=event_type.name).fetchall()
        if self.find(event_type.name) is not None:
            raise EventTypeExists(event_type=event_type.name)
        [(event_type_id,)] = self._run(
            "insert_event_type",
            name=event_type.name,
            category=event_type.category,
            epoch=epoch,
            definition=_json(event_type.definition),
            fingerprint=event_type.fingerprint,
            at=at,
        ).fetchall()
        self._add_partitions(event_type_id, range(event_type.partition_count))
        schema = event_type.definition["schema"]
        self._run("insert_schema", event_type_id=event_type_id, version=schema["version"], definition=_json(schema))

    def lock(self, name: str) -> StoredFeed | None:
        """See `Feeds.lock`."""
        return self.find(name)

    def update(self, feed: StoredFeed, event_type: EventType, at: int) -> None:
        """See `Feeds.update`."""
        self._run(
            "update_event_type",
            id=feed.id,
            category=event_type.category,
            definition=_json(event_type.definition),
            fingerprint=event_type.fingerprint,
            at=at,
        )
        self._add_partitions(feed.id, range(feed.partition_count, event_type.partition_count))

    def delete(self, name: str) -> bool:
        """See `Feeds.delete`."""
        self._run("drop_partitions", name=name)
        self._run("delete_positions", source=name)
        return self._run("delete_event_type", name=name).rowcount > 0

    def raise_epochs(self) -> int:
        """See `Feeds.raise_epochs`."""
        self._run("restore_epochs")
        count = self._run("restore_event_types").rowcount
        self._run("restore_subscriptions")
        return count

    def purge(self, rows: int) -> int:
        """See `Feeds.purge`."""
        removed = self._run("purge_events", rows=rows).rowcount
        if removed < rows:
            removed += self._run("purge_partition").rowcount
        return removed

    def _add_partitions(self, event_type_id: int, numbers: range) -> None:
        self._run("insert_partitions", event_type_id=event_type_id, numbers=_json(list(numbers)))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
