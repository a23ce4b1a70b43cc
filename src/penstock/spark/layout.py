"""Lays out rows for direct mode: each is a line of the feed beside its partition, sorted when it is sent.

All rows of a partition of the feed go to one task. Whatever order they arrive in, they get the same numbers whenever
the batch is made again (docs/decisions/direct-batches.md).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.types import AtomicType, BinaryType, IntegerType, StructField, StructType

from penstock.errors import BadParameter
from penstock.spark.naming import of_job, streamed
from penstock.spark.options import bad_option
from penstock.spark.publishing import BatchPlace, HubBatches, QueryBatch
from penstock.spark.routing import Routing
from penstock.spark.rows import EventRows
from penstock.spark.sink_options import SinkOptions

PARTITION: Final = "partition"
LINE: Final = "line"
CHUNK_BYTES: Final = 4 << 20
CHUNK_EVENTS: Final = 5_000
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Layout:
    """Makes lines of rows. Holds plain values: it can be sent to executors."""

    options: SinkOptions
    rows: EventRows
    routing: Routing
    orders: Sequence[str]
    """Columns by whose values the events of a partition are sorted, before their bytes."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the lines of rows; none where the batch is published already.

        Raises:
            InvalidRecord: a row is no valid event.
            PenstockError: what the hub answers, or that it has not answered for too long.
        """
        count: int | None = None
        for batch in batches:
            if count is None:
                hub = HubBatches(self.options.url, self.options.retry_timeout, self.options.credential)
                begun = hub.begin(batch_of(self.options))
                if begun.state == "published":
                    return
                count = begun.partitions
            assert count is not None
            yield self._lines(batch, count)

    def _lines(self, batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
        events = self.rows(batch)
        partitions = pa.array([self.routing(event, count) for event in events], pa.int32())
        lines = pa.array([_encode(event) + b"\n" for event in events], pa.binary())
        ordered = {_order(place): batch.column(name) for place, name in enumerate(self.orders)}
        return pa.RecordBatch.from_pydict({PARTITION: partitions, LINE: lines, **ordered})


class Share(NamedTuple):
    """Events of a batch that go to one partition, in their order."""

    place: BatchPlace
    events: int
    lines: memoryview


def batch_of(options: SinkOptions) -> QueryBatch:
    """Return what the batch is called that this task, on an executor, is one of."""
    return streamed(options) if options.batch_id is None else of_job(options)


def laid_schema(schema: StructType, orders: Sequence[str]) -> StructType:
    """Return the schema of rows of *schema* once they are laid out.

    Raises:
        BadParameter: there is no such column to sort by, or it has no order.
    """
    kinds = {field.name: field.dataType for field in schema.fields}
    for name in orders:
        if not isinstance(kinds.get(name), AtomicType):
            allowed = ", ".join(each for each, kind in kinds.items() if isinstance(kind, AtomicType))
            raise bad_option("orderBy", name, f"columns that have an order: {allowed}")
    ordered = [StructField(_order(place), kinds[name]) for place, name in enumerate(orders)]
    return StructType([StructField(PARTITION, IntegerType()), StructField(LINE, BinaryType()), *ordered])


def _order(place: int) -> str:
    return f"order_{place}"


def check_laid(schema: StructType) -> None:
    """Raise BadParameter unless rows of *schema* are laid out."""
    kinds = [(field.name, type(field.dataType)) for field in schema.fields[:2]]
    if kinds != [(PARTITION, IntegerType), (LINE, BinaryType)]:
        allowed = "rows laid out by partition: write what penstock.spark.direct(rows, ...) returns, or use mode=staged"
        raise BadParameter(f"mode is direct; allowed: {allowed}", parameter="mode", value="direct", allowed=allowed)


def shares(batches: Iterable[pa.RecordBatch]) -> Iterator[Share]:
    """Yield the events of one task by partition and in their order, in pieces that are one request each."""
    table = pa.Table.from_batches(found) if (found := list(batches)) else None
    if table is None or not table.num_rows:
        return
    orders = [name for name in table.column_names if name != LINE]
    table = table.sort_by([(name, "ascending") for name in [*orders, LINE]])
    lines = pa.concat_arrays([chunk.cast(pa.large_binary()) for chunk in table[LINE].chunks])
    partitions = table[PARTITION].to_pylist()
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("q")[lines.offset : lines.offset + len(lines) + 1]
    text = memoryview(data)
    start = 0
    while start < len(lines):
        last = bisect_right(partitions, partitions[start])
        number = 0
        while start < last:
            stop = min(last, start + CHUNK_EVENTS, max(start + 1, bisect_right(ends, ends[start] + CHUNK_BYTES) - 1))
            yield Share(BatchPlace(partitions[start], number), stop - start, text[ends[start] : ends[stop]])
            number += stop - start
            start = stop
