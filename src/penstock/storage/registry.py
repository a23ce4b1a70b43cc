"""Port of the registry: event types with their partitions, and the versions of their schemas."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.core.registry.event_type import EventType, StoredFeed
from penstock.errors import EventTypeExists, EventTypeNotFound
from penstock.storage.statements import SqlRunner

_decode_schema: Final = msgspec.json.Decoder(dict[str, Any]).decode


class EventTypeMeasurement(NamedTuple):
    """Figures of one event type."""

    name: str
    events: int
    """Number of retained events."""
    received_at: int | None
    """Time at which the newest event was received; None: there is none."""
    size: float | None
    """Mean size of the data of some of the newest events, in bytes; None: there is none."""


class EventTypeMeasurements(NamedTuple):
    """The event types with the most events."""

    event_types: Sequence[EventTypeMeasurement]
    total: int
    """Number of all event types."""


class RegistryRepository:
    """Event types, their partitions and their schemas.

    This implementation locks nothing, as if there were one writer at a time.
    """

    def __init__(self, sql: SqlRunner) -> None:
        self._run = sql.run

    def get(self, name: str) -> StoredFeed:
        """Return the feed of that name.

        Raises:
            EventTypeNotFound: there is no such event type.
        """
        feed = self.find(name)
        if feed is None:
            raise EventTypeNotFound(event_type=name)
        return feed

    def find(self, name: str, *, lock: bool = False) -> StoredFeed | None:
        """Return the feed of that name, or None.

        With *lock*, no other transaction changes the feed or appends to it until this one ends.
        """
        del lock
        rows = self._run("find_feeds", name=name).fetchall()
        return read_feed(rows[0]) if rows else None

    def list(self) -> Sequence[StoredFeed]:
        """Return all feeds, sorted by name."""
        return [read_feed(row) for row in self._run("find_feeds", name=None).fetchall()]

    def measure(self, limit: int) -> EventTypeMeasurements:
        """Measure all event types and return up to *limit*, the one with the most events first.

        Each partition costs one look-up in an index; of the event types that are returned, some events are read.
        """
        rows = self._run("event_types_measure", limit=limit).fetchall()
        return EventTypeMeasurements([EventTypeMeasurement(*row[:-1]) for row in rows], rows[0][-1] if rows else 0)

    def insert(self, event_type: EventType, at: int, owner: str | None = None) -> None:
        """Create an event type with its partitions and its schema; its epoch is one above the last of that name.

        Raises:
            EventTypeExists: the name is taken.
        """
        # Another transaction that creates this name waits here, and finds the event type below once this one commits.
        [(epoch,)] = self._run("raise_epoch", name=event_type.name).fetchall()
        if self.find(event_type.name) is not None:
            raise EventTypeExists(event_type=event_type.name)
        [(event_type_id,)] = self._run(
            "insert_event_type",
            name=event_type.name,
            category=event_type.category,
            epoch=epoch,
            definition=_to_json(event_type.definition),
            fingerprint=event_type.fingerprint,
            owner=owner,
            at=at,
        ).fetchall()
        self._insert_partitions(event_type_id, range(event_type.partition_count))
        self._insert_schema(event_type_id, event_type)

    def update(self, feed: StoredFeed, event_type: EventType, at: int) -> None:
        """Replace the definition of a locked feed, and record its schema if that is a new version.

        Partitions that are new begin empty.
        """
        if event_type.schema_version != feed.event_type.schema_version:
            self._insert_schema(feed.id, event_type)
        self._run(
            "update_event_type",
            id=feed.id,
            category=event_type.category,
            definition=_to_json(event_type.definition),
            fingerprint=event_type.fingerprint,
            at=at,
        )
        if event_type.is_compacted and not feed.event_type.is_compacted:
            self._run("begin_compaction", id=feed.id)
        self._insert_partitions(feed.id, range(feed.partition_count, event_type.partition_count))

    def delete(self, name: str) -> bool:
        """Drop an event type, and return whether it existed.

        Its events are below the floors of its partitions then: see `RemovalRepository.list_unswept`.
        """
        self._run("drop_partitions", name=name)
        self._run("delete_positions", source=name)
        self._run("streams_delete", source=name)
        return self._run("delete_event_type", name=name).rowcount > 0

    def raise_epochs(self) -> int:
        """Give every feed an epoch that no cursor has seen, and return how many feeds there are.

        Subscriptions keep their positions, which are as old as the feeds. Erasures that had begun go on.
        """
        erasures = [each for (each,) in self._run("erasures_unfinished").fetchall()]
        self._run("restore_epochs")
        count = self._run("restore_event_types").rowcount
        self._run("restore_subscriptions")
        self._run("restore_erasures", ids=_to_json(erasures))
        return count

    def list_schemas(
        self, feed: StoredFeed, *, version: str | None = None, limit: int = 1, offset: int = 0
    ) -> Sequence[dict[str, Any]]:
        """Return up to *limit* schemas, newest first, without the newest *offset*; only that of *version* if given."""
        found = self._run("list_schemas", event_type_id=feed.id, version=version, limit=limit, offset=offset)
        return [_decode_schema(text) for (text,) in found.fetchall()]

    def purge_partition(self) -> bool:
        """Delete a dropped partition without events and producers; return whether there was one."""
        return self._run("purge_partition").rowcount > 0

    def _insert_partitions(self, event_type_id: int, numbers: range) -> None:
        self._run("insert_partitions", event_type_id=event_type_id, numbers=_to_json(list(numbers)))

    def _insert_schema(self, event_type_id: int, event_type: EventType) -> None:
        schema, version = event_type.definition["schema"], event_type.schema_version
        self._run("insert_schema", event_type_id=event_type_id, version=version, definition=_to_json(schema))


def read_feed(row: Sequence[Any]) -> StoredFeed:
    """Return the feed of a row of `find_feeds`."""
    feed_id, epoch, revision, definition, created_at, updated_at, partition_ids_json = row
    partition_ids = tuple(msgspec.json.decode(partition_ids_json))
    return StoredFeed(
        id=feed_id,
        epoch=epoch,
        revision=revision,
        event_type=EventType.from_stored(definition, len(partition_ids)),
        partition_ids=partition_ids,
        created_at=created_at,
        updated_at=updated_at,
    )


def _to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
