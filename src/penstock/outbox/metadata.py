"""Fills in what a producer may leave out of an event's metadata."""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from penstock.errors import InvalidEvent

REQUIRED: Final = ("eid", "occurred_at")
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


def lacking_metadata(event: dict[str, Any]) -> bool:
    """Tell whether *event*'s metadata lacks its id or its time.

    Raises:
        InvalidEvent: the metadata is not an object.

    >>> lacking_metadata({"metadata": {"eid": "1", "occurred_at": "2026-11-20T10:00:00Z"}})
    False
    """
    metadata = event.get("metadata", {})
    if type(metadata) is not dict:
        raise InvalidEvent(reason="its metadata is not an object")
    return any(metadata.get(name) is None for name in REQUIRED)


def fill_metadata(raw: bytes, *, eid: UUID, occurred_at: datetime) -> bytes:
    """Return the event *raw* with *eid* and *occurred_at* where its metadata lacks them, all else byte for byte.

    >>> fill_metadata(b'{"n":1.50}', eid=UUID(int=7), occurred_at=datetime(2026, 11, 20, tzinfo=UTC))
    b'{"n":1.50,"metadata":{"eid":"00000000-0000-0000-0000-000000000007","occurred_at":"2026-11-20T00:00:00.000Z"}}'
    """
    event = _members(raw)
    metadata = _members(event["metadata"]) if "metadata" in event else {}
    moment = occurred_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    for name, value in zip(REQUIRED, (str(eid), moment), strict=True):
        if bytes(metadata.get(name, b"null")) == b"null":
            metadata[name] = msgspec.Raw(_encode(value))
    event["metadata"] = msgspec.Raw(_encode(metadata))
    return _encode(event)
