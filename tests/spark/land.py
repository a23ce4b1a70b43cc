"""A driver of its own, to be killed: `python -m tests.spark.land URL FOLDER`. It reads a feed into files."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock.spark


def land(spark: SparkSession, url: str, folder: Path, *, events_max: int = 10) -> None:
    """Read what is available into FOLDER/rows."""
    rows = spark.readStream.format("zeroeventhub").options(
        url=url,
        partitionCount="2",
        pageSizeHint=str(events_max // 2),
        maxEventsPerTrigger=str(events_max),
        landingLocation=str(folder / "landing"),
    )
    files = rows.load().writeStream.format("parquet").option("path", str(folder / "rows"))
    query = files.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    land(penstock.spark.session("land", master="local[1]"), sys.argv[1], Path(sys.argv[2]))
