"""The flights' feeds as typed Parquet, and the read model of delays from there."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.demo.daily import LATE_MINUTES, MICRO_BATCH
from penstock.cli.demo.dataset import AIRLINES, DEPARTED
from penstock.cli.failures import Failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GROUP: Final = "lake:flights"


class Delay(NamedTuple):
    """The read model: one carrier in one month."""

    carrier: str
    airline: str
    month: int
    flights: int
    cancelled: int
    departure_delay: float | None
    """Minutes, the mean over what departed."""
    late_share: float | None
    """The share of what departed that was more than 15 minutes late."""


class Lake:
    """Parquet files in one directory, written and read by Spark."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self._path = str(directory / "lake")

    def fill(self, url: str, event_types: Sequence[str]) -> "StreamingQuery":
        """Begin to write what is new in the feeds of the hub at *url*, and return the query."""
        from penstock.spark.pipelines import ingest

        return ingest(
            self._spark,
            self._path,
            url=url,
            eventType=",".join(event_types),
            payload="typed",
            consumerGroup=GROUP,
            maxEventsPerTrigger=str(MICRO_BATCH),
        )

    def counts(self) -> dict[str, int]:
        """Return how many events of each event type there are.

        Raises:
            Failure: some of them came twice.
        """
        from pyspark.sql import functions as f

        ids = f.count_distinct("data.metadata.eid")
        counted = self._events().groupBy("event_type").agg(f.count("*"), ids).collect()
        for event_type, count, distinct in counted:
            if count != distinct:
                raise Failure(f"{count} events of {event_type} are in the lake, but only {distinct} different ones")
        return {event_type: count for event_type, count, _ in counted}

    def table(self, event_type: str) -> "DataFrame":
        """Return the events of *event_type*."""
        return self._events().where(f"event_type = '{event_type}'")

    def sum_up(self) -> list[Delay]:
        """Compute the read model from the Parquet files, keep it, and return it by carrier and month."""
        from pyspark.sql import functions as f

        names = self.table(AIRLINES).select("data.data.carrier", f.col("data.data.name").alias("airline"))
        delay = f.col("dep_delay")
        model = (
            self.table(DEPARTED)
            .select("data.*")
            .join(f.broadcast(names), "carrier", "left")
            .groupBy("carrier", "airline", "month")
            .agg(
                f.count("*").alias("flights"),
                f.sum(f.col("dep_time").isNull().cast("int")).alias("cancelled"),
                f.avg(delay).alias("departure_delay"),
                f.avg((delay > LATE_MINUTES).cast("int")).alias("late_share"),
            )
            .orderBy("carrier", "month")
        )
        kept = str(self._directory / "read_model" / "delays_by_carrier_and_month")
        model.coalesce(1).write.mode("overwrite").parquet(kept)
        return [Delay(*row) for row in self._spark.read.parquet(kept).collect()]

    def _events(self) -> "DataFrame":
        return self._spark.read.parquet(self._path)
