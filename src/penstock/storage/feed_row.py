"""Reads a feed from the row that both databases' `find_feeds` gives."""

from typing import Any, Final

import msgspec

from penstock.core.event_type import FIRST_VERSION, EventType, Feed

_UNSAID: Final[dict[str, Any]] = {
    "owning_application": "",
    "enrichment_strategies": [],
    "partition_strategy": "random",
    "partition_key_fields": [],
    "ordering_key_fields": [],
    "ordering_instance_ids": [],
    "compatibility_mode": "none",
    "default_statistic": None,
    "options": {},
    "cleanup_policy": "delete",
    "authorization": None,
    "annotations": {},
    "labels": {},
}
_ANY_SCHEMA: Final = {"type": "json_schema", "schema": "{}", "version": FIRST_VERSION}


def feed_of(row: tuple[Any, ...]) -> Feed:
    """Return the feed of *row*: feed_id, epoch, revision, definition, created_at, updated_at, partition ids (JSON)."""
    feed_id, epoch, revision, definition, created_at, updated_at, numbers = row
    partition_ids = tuple(msgspec.json.decode(numbers))
    return Feed(
        id=feed_id,
        epoch=epoch,
        revision=revision,
        event_type=EventType.of(_whole(msgspec.json.decode(definition)), len(partition_ids)),
        partition_ids=partition_ids,
        created_at=created_at,
        updated_at=updated_at,
    )


def _whole(definition: dict[str, Any]) -> dict[str, Any]:
    """Return what is stored, and where 0.1.0 has stored it, which kept no more than was given, with the rest."""
    if "version" in definition.get("schema", ()):
        return definition
    known = {"category": definition["category"].lower(), "schema": _ANY_SCHEMA}
    return _UNSAID | definition | known
