"""A driver of its own, to be killed, that lands events in files: `python -m tests.spark.landing SOURCE WORDS…`."""

import json
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock.spark
from penstock.spark.pipelines import ingest


def land_feed(spark: SparkSession, url: str, event_type: str, lake: str) -> None:
    """Ingest what is available of a feed into a lake, in micro-batches of fifty."""
    ingest(spark, lake, url=url, eventType=event_type, maxEventsPerTrigger="50").awaitTermination()


def land_remote_feed(spark: SparkSession, url: str, folder: str, events_max: str = "10") -> None:
    """Read what is available of a remote feed into FOLDER/rows."""
    rows = spark.readStream.format("zeroeventhub").options(
        url=url,
        partitionCount="2",
        pageSizeHint=str(int(events_max) // 2),
        maxEventsPerTrigger=events_max,
        landingLocation=f"{folder}/landing",
    )
    files = rows.load().writeStream.format("parquet").option("path", f"{folder}/rows")
    query = files.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


def land_subscription(spark: SparkSession, options: str, lake: str, checkpoint: str, held: str) -> None:
    """Read what is available of a subscription into a lake.

    Where there is a file HELD, the first task stands still for ever, once it has made a second one that says so.
    """

    def hold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if Path(held).exists():
            Path(f"{held}.reached").touch()
            threading.Event().wait()
        yield from batches

    rows = spark.readStream.format("nakadi").options(**json.loads(options)).load().select("data")
    writer = rows.mapInArrow(hold, "data string").writeStream.format("parquet").option("path", lake)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


SOURCES = {"feed": land_feed, "remote": land_remote_feed, "subscription": land_subscription}


if __name__ == "__main__":
    SOURCES[sys.argv[1]](penstock.spark.session("landing", master="local[2]"), *sys.argv[2:])
