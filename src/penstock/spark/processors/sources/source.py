"""What a processor on Spark reads: a source whose events executors read, stretch by stretch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.processing.engine.item import Position
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
    """What executors make of events right after they were read."""

    make: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: str
    """What it makes of them, in Spark's words."""


class PlannedRead(NamedTuple):
    """Events that Spark is to read."""

    events: DataFrame
    """As `reading.EVENTS`, or what is made of these. Nothing is read before it is evaluated."""
    tasks: int
    """In about so many tasks."""


class Look(Protocol):
    """What a source had when it was looked: with that, a round is planned."""

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
        """Return what follows a position, so many events at most; None stands for where the source begins.

        None is returned where nothing follows, and of tranches that there were none of.

        Raises:
            EventsLost: events are gone that were not read, and that is to fail.
        """
        ...

    def numbering(self, tranche: str) -> str:
        """Return what numbers the events of a tranche, whether there still is one: see `StreamEvent.numbering`."""
        ...

    def reading(
        self, plan: ProcessingPlan, new: Sequence[TrancheRange], again: Sequence[TrancheRange], then: Then | None
    ) -> PlannedRead:
        """Return the events of a round: what is new, and what was read before."""
        ...


class SparkSource(Source, Protocol):
    """A source whose events Spark reads. It is for one processor, or one projection.

    Indices grow within a tranche, and what was read can be read again: see `Source`, of which it has all.
    """

    @property
    def passes_over_loss(self) -> bool:
        """Return whether events that are gone are passed over, with a line in the log; else their streams fail."""
        ...

    def open(self, spark: SparkSession) -> None:
        """Begin, in a session."""
        ...

    def look(self) -> Look:
        """Look what there is now."""
        ...
