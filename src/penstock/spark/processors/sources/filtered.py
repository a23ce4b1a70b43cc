"""A source of Spark's of which only some events are handled: the others are left out where they are read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.processing.engine.tranche import Position
from penstock.processing.sources.filtered import Filtered, Selection, Wanted
from penstock.spark.processors.reading import EVENTS_SQL, ProcessingPlan
from penstock.spark.processors.sources.source import Look, PlannedRead, SparkSource, Then, TrancheRange


@dataclass(frozen=True)
class Sift:
    """Leaves out of events, as `reading.EVENTS`, what is not wanted. It is sent to executors."""

    selection: Selection
    places: tuple[str, ...]
    """The tranches, by the numbers that rows name them by."""
    then: Then | None
    """The transformation of the other events."""

    def __call__(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Return what is made of those that are wanted."""
        allows, places = self.selection.allows, self.places
        rows = zip(*(events.column(name).to_pylist() for name in ("stream", "kind", "place")), strict=True)
        wanted = events.filter(
            pa.array([allows(stream, kind, places[place]) for stream, kind, place in rows], pa.bool_())
        )
        return wanted if self.then is None else self.then.make(wanted)


class SparkFiltered(Filtered):
    """The same as `Filtered`, for a source that Spark reads. Excluded events are not shuffled, and reach no handler.

    Args:
        source: The source to read.
        event_types, streams, kinds, except_event_types, except_streams, except_kinds, include_system: See `Filtered`.

    Raises:
        BadParameter: one of them is not a regular expression.
    """

    def __init__(
        self,
        source: SparkSource,
        *,
        event_types: Wanted = (),
        streams: Wanted = (),
        kinds: Wanted = (),
        except_event_types: Wanted = (),
        except_streams: Wanted = (),
        except_kinds: Wanted = (),
        include_system: bool = False,
    ) -> None:
        super().__init__(
            source, event_types=event_types, streams=streams, kinds=kinds, except_event_types=except_event_types,
            except_streams=except_streams, except_kinds=except_kinds, include_system=include_system,
        )  # fmt: skip
        self._read = source

    @property
    def passes_over_loss(self) -> bool:
        """As the source does."""
        return self._read.passes_over_loss

    def open(self, spark: SparkSession) -> None:
        """Begin, in a session."""
        self._read.open(spark)

    def look(self) -> Look:
        """Look what there is now, wanted or not."""
        return _SiftedLook(self._read.look(), self._selection)


@dataclass(frozen=True)
class _SiftedLook:
    look: Look
    selection: Selection

    @property
    def tranches(self) -> Collection[str]:
        return self.look.tranches

    def check(self, positions: Mapping[str, Position]) -> None:
        self.look.check(positions)

    def stretch(self, tranche: str, position: Position | None, events_max: int) -> TrancheRange | None:
        return self.look.stretch(tranche, position, events_max)

    def numbering(self, tranche: str) -> str:
        return self.look.numbering(tranche)

    def reading(
        self, plan: ProcessingPlan, new: Sequence[TrancheRange], again: Sequence[TrancheRange], then: Then | None
    ) -> PlannedRead:
        columns = EVENTS_SQL if then is None else then.columns
        return self.look.reading(plan, new, again, Then(Sift(self.selection, plan.places, then), columns))
