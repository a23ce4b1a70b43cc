"""Leaves out events on the executors."""

from dataclasses import dataclass

import pyarrow as pa

from penstock.processing.sources.filtered import Selection
from penstock.spark.processors.sources.source import Then


@dataclass(frozen=True)
class Sift:
    """Leaves out of events, as `reading.EVENTS`, what is not wanted. It is sent to executors."""

    selection: Selection
    places: tuple[str, ...]
    """The tranches, by the numbers that rows name them by."""
    then: Then | None
    """What is made of the others."""

    def __call__(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Return what is made of those that are wanted."""
        allows, places = self.selection.allows, self.places
        rows = zip(*(events.column(name).to_pylist() for name in ("stream", "kind", "place")), strict=True)
        wanted = events.filter(
            pa.array([allows(stream, kind, places[place]) for stream, kind, place in rows], pa.bool_())
        )
        return wanted if self.then is None else self.then.make(wanted)
