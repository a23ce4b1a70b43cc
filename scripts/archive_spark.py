"""Has a driver of Spark do a little of what tests do, and archives the classes that it loaded (JEP 350) in build/java.

Called by `scripts/setup-spark-archive`. Java ignores the archive of another Java or Spark.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Raw
from pyspark.sql import DataFrame, SparkSession

import penstock.spark
from penstock.client import Client
from penstock.core.events.event import NewEvent
from penstock.testing.live_hub import live_hub

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.java import ARCHIVE, HASTE


def main() -> None:
    """Leave the archive, whole or not at all."""
    growing = ARCHIVE.with_suffix(".growing")
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join([*HASTE, f"-XX:ArchiveClassesAtExit={growing}"])
    spark = penstock.spark.session("archive", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        use(spark, Path(folder))
    leave(spark)
    growing.rename(ARCHIVE)


def use(spark: SparkSession, folder: Path) -> None:
    """Do a little of what tests do."""
    rows = spark.range(100).selectExpr(
        "id", "id % 3 AS part", "cast(id AS string) AS text", "current_timestamp() AS at"
    )
    for kind in ("parquet", "json", "csv"):
        rows.write.partitionBy("part").format(kind).save(str(folder / kind))
        read = spark.read.schema(rows.schema).format(kind).load(str(folder / kind))
        read.join(rows, "id").groupBy(rows.part).agg({"id": "max"}).orderBy("part").collect()
    rows.createOrReplaceTempView("rows")
    spark.sql("SELECT *, row_number() OVER (PARTITION BY part ORDER BY id) AS number FROM rows").toArrow()
    rows.repartition("part").sortWithinPartitions("id").mapInArrow(lambda batches: batches, rows.schema).collect()
    spark.createDataFrame([(1, "a")], "number int, text string").collect()
    with live_hub(f"sqlite:///{folder}/penstock.db") as hub, Client(hub.url) as client:
        client.create_event_type("archive")
        client.publish("archive", (NewEvent(Raw(b'{"n": %d}' % number)) for number in range(100)))
        options = {"url": hub.url, "eventType": "archive"}
        spark.read.format("penstock").options(**options).load().collect()
        stream(spark.readStream.format("penstock").options(startingOffsets="earliest", **options).load(), folder)


def stream(events: DataFrame, folder: Path) -> None:
    """Stream *events* into a function, and into files."""

    def keep(some: DataFrame, _: int) -> None:
        some.persist().count()

    sinks = (
        events.writeStream.foreachBatch(keep),
        events.writeStream.format("parquet").option("path", f"{folder}/out"),
    )
    for number, sink in enumerate(sinks):
        query = sink.option("checkpointLocation", f"{folder}/{number}").trigger(availableNow=True).start()
        query.awaitTermination()


def leave(spark: SparkSession) -> None:
    """Stop Spark, and wait for its JVM, which writes the archive as it ends."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    main()
