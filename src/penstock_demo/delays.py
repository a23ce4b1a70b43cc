"""The read model: each carrier's delays in each month, kept in SQLite by projections on Spark.

The demo stops the projection once, at the worst moment: a round is folded, and its rows are not written. The next run
continues from the positions in the rows.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.cli.failures import CommandFailure
from penstock.processing import Projection
from penstock.processing.database import connector, transaction
from penstock.processing.engine.tranche import Position
from penstock_demo.access import PIPELINE, HubAccess
from penstock_demo.dataset import AIRLINES, DEPARTED, LATE_MINUTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.projections.project import Projected, ProjectionTarget, Round, RoundResult

ROUNDS: Final = 4
"""The number of rounds in which new flights are folded."""
_MODEL: Final = """
SELECT carrier, coalesce(name, carrier), month, flights, cancelled,
       CAST(delay_minutes AS REAL) / nullif(flights - cancelled, 0), CAST(late AS REAL) / nullif(flights - cancelled, 0)
FROM delays LEFT JOIN airlines USING (carrier)
ORDER BY carrier, month
"""


class Month(NamedTuple):
    """The key of the row that counts a flight."""

    carrier: str
    month: int


@dataclass
class Sums:
    """The sums of a carrier's flights of a month. Any order works: the flights come from several partitions."""

    flights: int = 0
    cancelled: int = 0
    delay_minutes: int = 0
    """Of those that left; early ones count against it."""
    late: int = 0
    """How many left more than 15 minutes late."""


@dataclass
class Airline:
    """The name of a carrier."""

    name: str = ""


class Delay(NamedTuple):
    """A row of the read model: one carrier in one month."""

    carrier: str
    airline: str
    month: int
    flights: int
    cancelled: int
    departure_delay: float | None
    """Minutes, the mean over what departed."""
    late_share: float | None
    """The share of departed flights that were more than 15 minutes late."""


class Stop(NamedTuple):
    """The progress of a projection before and after it was stopped."""

    before: int
    """Flights that were folded and written."""
    lost: int
    """Flights that were folded, and whose rows were not written."""
    after: int
    """Flights that were folded when it went on."""


def month_of(flight: Any) -> Month:
    """Return whose row a flight is counted in."""
    return Month(flight.data["carrier"], flight.data["month"])


def add(sums: Sums, flight: Any) -> Sums:
    """Add a flight."""
    delay = flight.data["dep_delay"]
    sums.flights += 1
    if delay is None:
        sums.cancelled += 1
    else:
        sums.delay_minutes += delay
        sums.late += delay > LATE_MINUTES
    return sums


class Carrier(NamedTuple):
    """Which row says what a carrier is called."""

    carrier: str


def carrier_of(change: Any) -> Carrier:
    """Return the carrier that a change of its data is about."""
    return Carrier(change.data["data"]["carrier"])


def renamed(_: Airline, change: Any) -> Airline:
    """Return what it is called now."""
    return Airline(change.data["data"]["name"])


DELAYS: Final = Projection("delays", Sums, add, key=month_of)
NAMES: Final = Projection("airlines", Airline, renamed, key=carrier_of)


class ReadModel:
    """The tables of both projections, in one file."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "read_model.db"
        self._database = f"sqlite:///{self.file}"
        with transaction(connector(self._database)) as connection:
            for projection in (NAMES, DELAYS):
                projection.table.create(connection)

    def keep(
        self, spark: "SparkSession", hub: HubAccess, count: int, note: "Callable[[Projected], object]"
    ) -> Stop | None:
        """Fold new flights, and stop once in the middle; return the progress around the stop, None if there was none.

        Few flights take fewer rounds.

        Args:
            spark: The session.
            hub: The hub that the pipeline reads.
            count: The number of all flights.
            note: Called with the progress after each round.
        """
        from penstock.spark.projections.database import DatabaseTarget
        from penstock.spark.projections.project import project

        project(spark, DatabaseTarget(NAMES, self._database), hub.open_source(PIPELINE, AIRLINES))
        target = DatabaseTarget(DELAYS, self._database)
        begun = self.count()
        if begun == count:
            return None
        events = max(1, -(-(count - begun) // ROUNDS))
        stopping = StoppedOnce(target, ROUNDS // 2 + (begun == 0))  # At first it is kept where it begins.
        try:
            project(spark, stopping, hub.open_source(PIPELINE, DEPARTED), events_per_round=events, progress=note)
        except _Stopped:
            stopped = self.count()
        else:
            return None
        project(spark, target, hub.open_source(PIPELINE, DEPARTED), events_per_round=events, progress=note)
        return Stop(stopped - begun, stopping.folded - stopped, self.count() - stopped)

    def count(self) -> int:
        """Return how many flights are counted."""
        return int(self._rows("SELECT coalesce(sum(flights), 0) FROM delays")[0][0])

    def rows(self) -> list[Delay]:
        """Return the rows by carrier and month, with airlines' names."""
        return [Delay(*row) for row in self._rows(_MODEL)]

    def check(self, flights: "DataFrame") -> None:
        """Hold the rows against what the lake's *flights* add up to.

        Raises:
            CommandFailure: that is something else.
        """
        summed = flights.groupBy("data.carrier", "data.month").agg(*_sums())
        true = {(carrier, month): tuple(sums) for carrier, month, *sums in summed.collect()}
        query = "SELECT carrier, month, flights, cancelled, delay_minutes, late FROM delays"
        kept = {(carrier, month): tuple(sums) for carrier, month, *sums in self._rows(query)}
        if wrong := {key for key in true.keys() | kept.keys() if true.get(key) != kept.get(key)}:
            raise CommandFailure(
                f"what {self.file} says of {len(wrong)} carriers' months is not what their flights add up to"
            )

    def _rows(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection:
            return connection.execute(query).fetchall()


class _Stopped(Exception):
    pass


class StoppedOnce:
    """A target that stops its projection after a number of rounds: the next round is folded, and its rows are lost."""

    def __init__(self, target: "ProjectionTarget", rounds: int) -> None:
        self.folded = 0
        """How many flights the rows would have said that there are."""
        self.projection, self.fold = target.projection, target.fold
        self._target = target
        self._rounds = rounds

    def positions(self, spark: "SparkSession") -> Mapping[str, Position]:
        """Return how far it is, by tranche."""
        return self._target.positions(spark)

    def rows(self, spark: "SparkSession") -> "DataFrame | None":
        """Return the rows that there are."""
        return self._target.rows(spark)

    def keep(self, spark: "SparkSession", found: "Round") -> "RoundResult":
        """Keep what came of a round, or stop."""
        if self._rounds == 0:
            folded = found.rows.selectExpr("sum(CAST(get_json_object(state, '$.flights') AS BIGINT))").first()
            self.folded = folded[0] if folded else 0
            raise _Stopped
        self._rounds -= 1
        return self._target.keep(spark, found)


def _sums() -> list[Any]:
    from pyspark.sql import functions as f

    delay = f.col("data.dep_delay")
    return [
        f.count("*"),
        f.sum(delay.isNull().cast("int")),
        f.sum(f.coalesce(delay, f.lit(0))),
        f.sum((f.coalesce(delay, f.lit(0)) > LATE_MINUTES).cast("int")),
    ]
