"""Reads a stretch on an executor, in pages of a few megabytes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from penstock.spark.columns import QueryColumn
from penstock.spark.messagedb.columns import CATEGORY
from penstock.spark.messagedb.places import CategoryRange

PAGE_BYTES: Final = 4 << 20
PAGE_ROWS: Final = 500
"""The first page's; how large events are, it will show."""
PAGE_ROWS_MAX: Final = 10_000
_TYPES: Final = {
    "position": pa.int64(),
    "global_position": pa.int64(),
    "received_at": pa.timestamp("us", "UTC"),
}
"""All others are texts."""


class CategoryPages(Protocol):
    """Where pages come from: a MessageDB."""

    def page(self, stretch: CategoryRange, columns: Sequence[str], rows: int) -> list[tuple[Any, ...]]:
        """Return the first *rows* events of *stretch*: each one's global position, and then its *columns*."""


def read_stretch(
    store: CategoryPages, stretch: CategoryRange, columns: Sequence[QueryColumn]
) -> Iterator[pa.RecordBatch]:
    """Read the events of *stretch*, in the order of their global positions."""
    names, rows = [column.name for column in columns], PAGE_ROWS
    while stretch.start < stretch.end:
        found = store.page(stretch, names, rows)
        if not found:
            return
        batch = to_batch(found, stretch.category, columns)
        yield batch
        if len(found) < rows:
            return
        stretch = stretch._replace(start=found[-1][0] + 1)
        rows = next_rows(rows, batch.nbytes)


def next_rows(rows: int, size: int) -> int:
    """Return how many rows the next page is to have, after *rows* had *size* bytes.

    >>> next_rows(500, 50_000), next_rows(500, 50_000_000)
    (1000, 41)
    """
    return max(1, min(PAGE_ROWS_MAX, 2 * rows, rows * PAGE_BYTES // max(size, 1)))


def to_batch(rows: Sequence[tuple[Any, ...]], category: str, columns: Sequence[QueryColumn]) -> pa.RecordBatch:
    """Return *rows*, whose first value is not shown, as Spark takes them."""
    values = list(zip(*rows, strict=True))[1:]
    fields = [pa.field(column.name, _TYPES.get(column.name, pa.string()), column.nullable) for column in columns]
    arrays = [
        pa.repeat(pa.scalar(category), len(rows)) if field.name == CATEGORY else pa.array(given, field.type)
        for field, given in zip(fields, values, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
