"""What Spark does: the feeds into Parquet, and the read model of delays from there."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.cli.demo.dataset import AIRLINES, DEPARTED, Series
from penstock.cli.failures import Failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final = {"int64": "BIGINT", "double": "DOUBLE", "string": "STRING"}
_TIMES: Final = {"scheduled_departure", "time_hour"}
LATE_MINUTES: Final = 15


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

    def fill(self, url: str, series: Series) -> int:
        """Read one feed of the hub at *url* into Parquet, typed; return how many events that are.

        Raises:
            Failure: some of them came twice.
        """
        from pyspark.sql import functions as f

        feed = self._spark.read.format("penstock").option("url", url).option("eventType", series.event_type).load()
        # Where an event stands in its feed is kept beside it, so that it can be found again there.
        place = (f.col("partition").alias("feed_partition"), f.col("offset").alias("feed_offset"), "key", "received_at")
        typed = feed.select(*place, f.from_json("data", schema_of(series)).alias("event"))
        typed.select(*typed.columns[:4], "event.*").write.mode("overwrite").parquet(self._path(series.event_type))
        counted = self._table(series.event_type).agg(f.count("*"), f.count_distinct("metadata.eid")).collect()
        count, distinct = counted[0]
        if count != distinct:
            raise Failure(f"{count} events of {series.event_type} are in Parquet, but only {distinct} different ones")
        return int(count)

    def sum_up(self) -> list[Delay]:
        """Compute the read model from the Parquet files, keep it, and return it by carrier and month."""
        from pyspark.sql import functions as f

        names = self._table(AIRLINES).select("data.carrier", f.col("data.name").alias("airline"))
        delay = f.col("dep_delay")
        model = (
            self._table(DEPARTED)
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

    def _table(self, event_type: str) -> "DataFrame":
        return self._spark.read.parquet(self._path(event_type))

    def _path(self, event_type: str) -> str:
        return str(self._directory / "lake" / event_type)


def schema_of(series: Series) -> str:
    """Return the events' schema in Spark's words, made from the columns of their table."""
    columns = ", ".join(
        f"{field.name} {'TIMESTAMP' if field.name in _TIMES else _TYPES[str(field.type)]}"
        for field in series.table.schema
    )
    metadata = "metadata STRUCT<eid: STRING, occurred_at: TIMESTAMP>"
    if series.definition["category"] == "data":
        return f"{metadata}, data_type STRING, data_op STRING, data STRUCT<{columns}>"
    return f"{metadata}, {columns}"
