"""Reads a feed from the row that both databases' `find_feeds` gives."""

from typing import Any

import msgspec

from penstock.core.registry.event_type import EventType, StoredFeed


def feed_of(row: tuple[Any, ...]) -> StoredFeed:
    """Return the feed of *row*: feed_id, epoch, revision, definition, created_at, updated_at, partition ids (JSON)."""
    feed_id, epoch, revision, definition, created_at, updated_at, numbers = row
    partition_ids = tuple(msgspec.json.decode(numbers))
    return StoredFeed(
        id=feed_id,
        epoch=epoch,
        revision=revision,
        event_type=EventType.from_stored(definition, len(partition_ids)),
        partition_ids=partition_ids,
        created_at=created_at,
        updated_at=updated_at,
    )
