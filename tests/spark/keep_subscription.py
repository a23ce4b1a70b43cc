"""A driver of its own, to be killed: `python -m tests.spark.keep_subscription OPTIONS LAKE CHECKPOINT HELD`.

It keeps the events of a subscription in files. Where there is a file HELD, its first task stands still for ever, once
it has made a second one that says so.
"""

import json
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock.spark


def keep(spark: SparkSession, options: dict[str, str], lake: str, checkpoint: str, held: str) -> None:
    """Keep what is there, and end."""

    def hold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if Path(held).exists():
            Path(f"{held}.reached").touch()
            threading.Event().wait()
        yield from batches

    rows = spark.readStream.format("nakadi").options(**options).load().select("data")
    writer = rows.mapInArrow(hold, "data string").writeStream.format("parquet").option("path", lake)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


if __name__ == "__main__":
    keep(penstock.spark.session("keep", master="local[2]"), json.loads(sys.argv[1]), *sys.argv[2:])
