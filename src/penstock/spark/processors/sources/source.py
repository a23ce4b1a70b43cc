"""The protocol of sources for processors on Spark: executors read their events, range by range."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.processing.engine.tranche import Position
from penstock.processing.sources.source import Source
from penstock.spark.processors.reading import ProcessingPlan

__all__ = ["SparkSource"]


class TrancheRange(NamedTuple):
    """The events of a tranche from the index *start* up to, but without, *end*."""

    tranche: str
    start: int
    end: int
    events: int
    """How many they are at most."""
    position: Position = ""
    """From where the tranche is read on when all of them are handled; nothing where they are read again."""
    is_tail: bool = False
    """True if there is nothing more behind them."""


class Then(NamedTuple):
    """A transformation that executors apply to events right after reading them."""

    make: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: str
    """The resulting columns, as a schema of Spark."""


class PlannedRead(NamedTuple):
    """Events that Spark is to read."""

    events: DataFrame
    """As `reading.EVENTS`, or what is made of these. Nothing is read before it is evaluated."""
    tasks: int
    """The approximate number of tasks."""


class Look(Protocol):
    """The extent of a source at a moment: a round is planned by it."""

    @property
    def tranches(self) -> Collection[str]:
        """The tranches that there were."""
        ...

    def check(self, positions: Mapping[str, Position]) -> None:
        """Raise where a processor cannot go on that has come to *positions*, by tranche.

        Raises:
            EventsLost: these mean other events: what was read before, too, cannot be read again.
            BadParameter: a tranche ends before its position.
        """
        ...

    def stretch(self, tranche: str, position: Position | None, events_max: int) -> TrancheRange | None:
        """Return a range of at most *events_max* events after a position; None: from the source's beginning.

        Return None if no events follow, or if the tranche does not exist.

        Raises:
            EventsLost: events are gone before they were read, and the source fails on loss.
        """
        ...

    def numbering(self, tranche: str) -> str:
        """Return what numbers the events of a tranche, whether there still is one: see `StreamEvent.numbering`."""
        ...

    def reading(
        self, plan: ProcessingPlan, new: Sequence[TrancheRange], again: Sequence[TrancheRange], then: Then | None
    ) -> PlannedRead:
        """Return the events of a round: new ones, and those that were read before."""
        ...


class SparkSource(Source, Protocol):
    """A source whose events Spark reads. It serves one processor or projection.

    Indices increase within a tranche, and events can be read again: see `Source`, which it extends.
    """

    @property
    def passes_over_loss(self) -> bool:
        """Return whether events that are gone are skipped, with a line in the log; otherwise their streams fail."""
        ...

    def open(self, spark: SparkSession) -> None:
        """Begin, in a session."""
        ...

    def look(self) -> Look:
        """Look what there is now."""
        ...
