"""Files of a cold tier, for tests."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from penstock.cold.description import FileDescription
from penstock.cold.parquet import FileWriter
from penstock.core.log.arrow import SCHEMA

TIER: Final = "0123456789abcdef"
NOON: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)


def describe(stop: int, event_type: str = "order.placed") -> FileDescription:
    """Return the description of a file of offsets 0 to before *stop*."""
    return FileDescription(
        tier=TIER,
        event_type=event_type,
        epoch=1,
        created_at=0,
        partition=0,
        partition_count=1,
        start=0,
        stop=stop,
        definition={},
        written_at=0,
    )


def make_batch(texts: Sequence[str]) -> pa.RecordBatch:
    """Return events with this data, from offset 0 on."""
    rows = [
        {
            "partition": 0,
            "offset": n,
            "key": f"k{n % 3}",
            "kind": None,
            "headers": None,
            "data": text,
            "received_at": NOON,
        }
        for n, text in enumerate(texts)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def write_file(texts: Sequence[str], typed: pa.StructType | None) -> bytes:
    """Return a file with events."""
    writer = FileWriter(typed)
    writer.add(make_batch(texts))
    body, _ = writer.finish(describe(len(texts)))
    return bytes(body)
