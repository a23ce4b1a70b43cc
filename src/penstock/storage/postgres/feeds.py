"""Event types and their partitions in PostgreSQL."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import msgspec
import psycopg

from penstock.core.event_type import EventType, Feed
from penstock.errors import EventTypeExists
from penstock.storage.feed_row import feed_of
from penstock.storage.statements import statement

_sql: Final[Any] = partial(statement, __package__)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class PostgresFeeds:
    """See `penstock.storage.store.Feeds`."""

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def find(self, name: str) -> Feed | None:
        """See `Feeds.find`."""
        found = self._connection.execute(_sql("find_feeds"), {"name": name}).fetchone()
        return feed_of(found) if found else None

    def list(self) -> Sequence[Feed]:
        """See `Feeds.list`."""
        return [feed_of(row) for row in self._connection.execute(_sql("find_feeds"), {"name": None}).fetchall()]

    def insert(self, event_type: EventType, at: int) -> None:
        """See `Feeds.insert`."""
        # Whoever else creates this name waits here, and finds below what was created meanwhile.
        (epoch,) = self._returning("raise_epoch", name=event_type.name)
        if self.find(event_type.name) is not None:
            raise EventTypeExists(event_type=event_type.name)
        (event_type_id,) = self._returning(
            "insert_event_type",
            name=event_type.name,
            category=event_type.category,
            epoch=epoch,
            definition=_json(event_type.definition),
            at=at,
        )
        self._add_partitions(event_type_id, 0, event_type.partition_count)
        schema = event_type.definition["schema"]
        kept = {"event_type_id": event_type_id, "version": schema["version"], "definition": _json(schema)}
        self._connection.execute(_sql("insert_schema"), kept)

    def lock(self, name: str) -> Feed | None:
        """See `Feeds.lock`."""
        return self.find(name) if self._returning("lock_event_type", name=name) else None

    def update(self, feed: Feed, event_type: EventType, at: int) -> None:
        """See `Feeds.update`."""
        given = {"id": feed.id, "category": event_type.category, "definition": _json(event_type.definition), "at": at}
        self._connection.execute(_sql("update_event_type"), given)
        self._add_partitions(feed.id, feed.partition_count, event_type.partition_count)

    def _add_partitions(self, event_type_id: int, first: int, count: int) -> None:
        given = {"event_type_id": event_type_id, "first": first, "count": count}
        self._connection.execute(_sql("insert_partitions"), given)

    def delete(self, name: str) -> bool:
        """See `Feeds.delete`."""
        found = self._returning("lock_event_type", name=name)
        if found is None:
            return False
        self._connection.execute(_sql("drop_partitions"), {"id": found[0]})
        self._connection.execute(_sql("lock_positions"), {"source": name})
        self._connection.execute(_sql("delete_positions"), {"source": name})
        self._connection.execute(_sql("delete_event_type"), {"id": found[0]})
        return True

    def raise_epochs(self) -> int:
        """See `Feeds.raise_epochs`."""
        self._connection.execute(_sql("lock_event_types"))
        self._connection.execute(_sql("restore_epochs"))
        return self._connection.execute(_sql("restore_event_types")).rowcount

    def purge(self, rows: int) -> int:
        """See `Feeds.purge`."""
        removed = self._connection.execute(_sql("purge_events"), {"rows": rows}).rowcount
        if removed < rows:
            removed += self._connection.execute(_sql("purge_partition")).rowcount
        return removed

    def _returning(self, statement_name: str, /, **given: Any) -> Any:
        return self._connection.execute(_sql(statement_name), given).fetchone()
