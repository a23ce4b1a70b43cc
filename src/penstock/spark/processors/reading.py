"""Events by column, as executors read them in a round, under the names of their streams."""

from collections.abc import Mapping
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.processors.plan import ProcessingPlan

EVENTS: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("place", pa.int32()),
        pa.field("again", pa.bool_()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("headers", pa.string()),
        pa.field("data", pa.string()),
        pa.field("received", pa.int64()),
    ]
)
"""`data` is null where an event only has to be counted. `offset` is its index, whatever the source calls that."""
EVENTS_SQL: Final = (
    "stream string, place int, again boolean, offset bigint, key string, kind string, headers string, data string, "
    "received bigint"
)
_FORMATS: Final[Mapping[pa.DataType, Literal["i", "q"]]] = {pa.int32(): "i", pa.int64(): "q"}


def numbers(column: pa.ChunkedArray) -> "memoryview[int]":
    """Return the whole numbers of a column without nulls, of 32 or 64 bits; those of one chunk where they lie.

    NumPy would do the same, but executors need not have it.
    """
    if not len(column):
        return memoryview(b"").cast("q")
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values = memoryview(array.buffers()[1]).cast(_FORMATS[array.type])
    return values[array.offset : array.offset + len(array)]


def looked_at(events: pa.RecordBatch, plan: ProcessingPlan, *, again: bool) -> pa.RecordBatch:
    """Return *events* without what nobody will look at: of those that were read before, other streams than the plan's.

    Of those that are new and only wait, `data` is left out.
    """
    streams = events.column("stream")
    if again:
        return events.filter(pc.is_in(streams, pa.array(list(plan.again), pa.string())))
    if not plan.waiting:
        return events
    waits = pc.is_in(streams, pa.array(list(plan.waiting), pa.string()))
    data = pc.if_else(waits, pa.scalar(None, pa.string()), events.column("data"))
    return events.set_column(EVENTS.get_field_index("data"), EVENTS.field("data"), data)
