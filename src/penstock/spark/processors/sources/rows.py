"""Rows of a data frame as the events of a round, on executors or on the driver."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.processors.plan import ProcessingPlan
from penstock.spark.processors.reading import EVENTS, looked_at
from penstock.spark.processors.sources.source import Then

COLUMNS: Final = ("tranche", "stream", "offset", "key", "kind", "headers", "data", "received")
"""What rows have, of the types of `reading.EVENTS`; their tranche is named."""


@dataclass(frozen=True)
class AsEvents:
    """Makes events of rows. It is sent to executors."""

    plan: ProcessingPlan
    again: bool
    """Whether they were read before."""
    then: Then | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows as `reading.EVENTS`, or what is made of these."""
        for batch in batches:
            events = looked_at(self._events(batch), self.plan, again=self.again)
            if events.num_rows:
                yield events if self.then is None else self.then.make(events)

    def _events(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        places = pa.array(self.plan.places, pa.string())
        arrays = {field.name: rows.column(field.name) for field in EVENTS if field.name in COLUMNS}
        arrays["place"] = pc.index_in(rows.column("tranche"), places)
        arrays["again"] = pa.repeat(pa.scalar(self.again), rows.num_rows)
        columns = [arrays[field.name].cast(field.type) for field in EVENTS]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
