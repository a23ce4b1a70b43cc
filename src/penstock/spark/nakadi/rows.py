"""Makes rows of a batch that Nakadi has sent, and of rows what a query wants to see."""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.wire.subscriptions import BatchLine

ROWS: Final = pa.schema(
    [
        pa.field("event_type", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("cursor", pa.string(), nullable=False),
        pa.field("place", pa.int64(), nullable=False),
        pa.field("id", pa.string()),
        pa.field("data", pa.string(), nullable=False),
        pa.field("received_at", pa.timestamp("us", "UTC")),
    ]
)


class _Event(msgspec.Struct, gc=False):
    # Any: events of category undefined may have whatever they like under this name.
    metadata: Any = None


_events: Final = msgspec.json.Decoder(_Event)


def to_rows(line: BatchLine) -> pa.RecordBatch:
    """Return the events of *line* as they are landed, in all columns.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: an event is no JSON object.
    """
    raws = [bytes(event) for event in line.events or ()]
    metadata = [_metadata(raw) for raw in raws]
    cursor = line.cursor
    alike = [pa.repeat(pa.scalar(text), len(raws)) for text in (cursor.event_type, cursor.partition, cursor.offset)]
    arrays = [
        *alike,
        pa.array(range(len(raws)), pa.int64()),
        pa.array([_text(each.get("eid")) for each in metadata], pa.string()),
        pa.array([raw.decode() for raw in raws], pa.string()),
        pa.array([_time(each.get("received_at")) for each in metadata], pa.timestamp("us", "UTC")),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def _metadata(raw: bytes) -> dict[str, Any]:
    found = _events.decode(raw).metadata
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _time(value: object) -> datetime | None:
    """Return the time that *value* is; None where it is none, or has no zone.

    >>> _time("2026-11-20T10:00:00.5+01:00")
    datetime.datetime(2026, 11, 20, 9, 0, 0, 500000, tzinfo=datetime.timezone.utc)
    """
    try:
        found = msgspec.convert(value, datetime)
    except (msgspec.ValidationError, OverflowError):
        return None
    return None if found.tzinfo is None else found.astimezone(UTC)
