"""The flights' feeds as typed Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.failures import CommandFailure
from penstock_demo.daily import MICRO_BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GROUP: Final = "lake:flights"


class Lake:
    """Parquet files in one directory, written and read by Spark."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self._spark = spark
        self._path = str(directory / "lake")

    def fill(self, event_types: Sequence[str], **hub: Any) -> "StreamingQuery":
        """Begin to write what is new in the feeds of the hub that the options *hub* name, and return the query."""
        from penstock.spark.pipelines import ingest

        return ingest(
            self._spark,
            self._path,
            **hub,
            eventType=",".join(event_types),
            payload="typed",
            consumerGroup=GROUP,
            maxEventsPerTrigger=str(MICRO_BATCH),
        )

    def counts(self) -> dict[str, int]:
        """Return how many events of each event type there are.

        Raises:
            CommandFailure: some of them came twice.
        """
        from pyspark.sql import functions as f

        ids = f.count_distinct("data.metadata.eid")
        counted = self._events().groupBy("event_type").agg(f.count("*"), ids).collect()
        for event_type, count, distinct in counted:
            if count != distinct:
                raise CommandFailure(
                    f"{count} events of {event_type} are in the lake, but only {distinct} different ones"
                )
        return {event_type: count for event_type, count, _ in counted}

    def table(self, event_type: str) -> "DataFrame":
        """Return the events of *event_type*."""
        return self._events().where(f"event_type = '{event_type}'")

    def _events(self) -> "DataFrame":
        return self._spark.read.parquet(self._path)
