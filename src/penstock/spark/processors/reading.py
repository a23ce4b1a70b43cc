"""Events by column, as executors read them in a round, under the names of their streams."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.processors.plan import Plan

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


def looked_at(events: pa.RecordBatch, plan: Plan, *, again: bool) -> pa.RecordBatch:
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
