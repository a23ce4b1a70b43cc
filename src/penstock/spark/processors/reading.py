"""Reads the ranges of a round on the executors: events by column, under the names of their streams."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.patience import Patience
from penstock.spark.processors.plan import Plan
from penstock.spark.ranges import Range
from penstock.spark.reading import read_range

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
"""`data` is null where an event only has to be counted."""
EVENTS_SQL: Final = (
    "stream string, place int, again boolean, offset bigint, key string, kind string, headers string, data string, "
    "received bigint"
)


@dataclass(frozen=True)
class Read:
    """Reads the tasks of a plan, each named by its number in a column `id`."""

    plan: Plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events of the tasks that *batches* name.

        Raises:
            EventsLost: some are gone, and that is to fail.
            PenstockError: what the hub answers, when it does not pass in time.
        """
        new = len(self.plan.tasks)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                again = number >= new
                ranges = self.plan.again_tasks[number - new] if again else self.plan.tasks[number]
                for wanted in ranges:
                    yield from self._read(wanted, again=again)

    def _read(self, wanted: Range, *, again: bool) -> Iterator[pa.RecordBatch]:
        plan = self.plan
        patience = Patience(plan.hub.retry_seconds)
        number = plan.numbers[wanted.event_type, wanted.partition]
        for batch in read_range(plan.hub, wanted, patience, fail_on_loss=plan.fail_on_loss, with_headers=False):
            yield self._shaped(batch, wanted, number, again=again)

    def _shaped(self, batch: pa.RecordBatch, wanted: Range, number: int, *, again: bool) -> pa.RecordBatch:
        rows = batch.num_rows
        streams = self._streams(batch.column("key"), wanted)
        columns = [
            streams,
            pa.repeat(pa.scalar(number, pa.int32()), rows),
            pa.repeat(pa.scalar(again), rows),
            batch.column("offset"),
            batch.column("key"),
            pc.fill_null(batch.column("kind"), wanted.event_type),
            batch.column("headers"),
            batch.column("data"),
            batch.column("received_at").cast(pa.int64()),
        ]
        made = pa.RecordBatch.from_arrays(columns, schema=EVENTS)
        if again:
            return made.filter(pc.is_in(streams, pa.array(list(self.plan.again), pa.string())))
        return self._without_payload(made)

    def _without_payload(self, made: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out what nobody will look at: events that only wait."""
        waiting = self.plan.waiting
        if not waiting:
            return made
        waits = pc.is_in(made.column("stream"), pa.array(list(waiting), pa.string()))
        data = pc.if_else(waits, pa.scalar(None, pa.string()), made.column("data"))
        return made.set_column(EVENTS.get_field_index("data"), EVENTS.field("data"), data)

    def _streams(self, keys: pa.Array, wanted: Range) -> pa.Array:
        """Name streams as `stream_name` does."""
        in_partition = f"{wanted.event_type}-{wanted.partition}_"
        own = pc.binary_join_element_wise(in_partition, pc.fill_null(keys, ""), "")
        if wanted.event_type not in self.plan.hashed:
            return own
        named = pc.binary_join_element_wise(f"{wanted.event_type}-", keys, "")
        return pc.if_else(pc.is_valid(keys), named, own) if keys.null_count else named
