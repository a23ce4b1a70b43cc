"""Nakadi's shapes: event types and offsets, as existing clients know them (digest of its contract, 2.1 and 4.1)."""

import re
from typing import Any, Final

from penstock.errors import BadCursor
from penstock.wire.query import shown

_DEFAULTS: Final[dict[str, Any]] = {
    "owning_application": "",
    "enrichment_strategies": [],
    "partition_key_fields": [],
    "ordering_key_fields": [],
    "ordering_instance_ids": [],
    "compatibility_mode": "forward",
    "schema": {"type": "json_schema", "schema": "{}"},
    "cleanup_policy": "delete",
    "options": {},
    "annotations": {},
    "labels": {},
    "authorization": None,
}
_OFFSET: Final = re.compile(r"001-([0-9a-f]{4})-(-1|\d{1,18})", re.ASCII)


def event_type_object(
    definition: dict[str, Any],
    *,
    category: str,
    partition_strategy: str,
    partition_count: int,
    created_at: str,
    updated_at: str,
) -> dict[str, Any]:
    """Return an event type as it is shown: what its owner gave, what is not known here included, with defaults."""
    known = {"category": category, "partition_strategy": partition_strategy, "partition_count": partition_count}
    return _DEFAULTS | definition | known | {"created_at": created_at, "updated_at": updated_at}


def offset_text(epoch: int, offset: int) -> str:
    """Return an offset in Nakadi's text: the last one consumed, -1 before the first.

    >>> offset_text(1, 41), offset_text(2, -1)
    ('001-0001-000000000000000041', '001-0002--1')
    """
    return f"001-{epoch:04x}-{offset:018}" if offset >= 0 else f"001-{epoch:04x}--1"


def parse_offset(text: str) -> tuple[int, int]:
    """Return the epoch and the offset of Nakadi's text.

    Raises:
        BadCursor: it is not such a text.

    >>> parse_offset("001-0001-000000000000000041")
    (1, 41)
    """
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise BadCursor(
            parameter="offset", value=shown(text), reason="it is not of the form 001-0001-000000000000000041"
        )
    return int(match[1], 16), int(match[2])


def partition_object(epoch: int, partition: int, floor: int, next_offset: int) -> dict[str, str]:
    """Return a partition as it is shown: its first and its last event; with none, the last lies before the first."""
    return {
        "partition": str(partition),
        "oldest_available_offset": offset_text(epoch, floor),
        "newest_available_offset": offset_text(epoch, next_offset - 1),
    }
