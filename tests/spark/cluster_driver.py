"""A driver on a cluster: `spark-submit --py-files WHEEL cluster_driver.py JOB GIVEN FILE`.

What a job has found is in FILE when it has ended. Nothing but the wheel and what executors have is imported.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import rand

import penstock
import penstock.spark
from penstock.spark.pipelines import HubFeed, export, forward, ingest, watch
from penstock.spark.source import PenstockDataSource


def read(spark: SparkSession, *, url: str, event_type: str) -> list[Any]:
    """Return the place of each event, the event, and in what surroundings it was read."""

    def told(row: Row) -> tuple[Any, ...]:
        return row["partition"], row["offset"], row["data"], os.getcwd(), penstock.__file__  # noqa: PTH109

    rows = spark.read.format("penstock").options(url=url, eventType=event_type, minPartitions="8").load()
    return list(rows.rdd.map(told).collect())


def move(spark: SparkSession, *, url: str, event_type: str, copies: list[str], lake: str) -> dict[str, int]:
    """Move a feed by streams, twice from the same checkpoints, and return what each has moved."""
    source = {"url": url, "eventType": event_type, "minPartitions": "4"}
    published, forwarded = copies
    moved: dict[str, int] = {}
    for _ in range(2):
        rows = spark.readStream.format("penstock").options(startingOffsets="earliest", **source).load()
        sink = rows.select("data").writeStream.format("penstock").options(url=url, eventType=published)
        queries = {
            "lake": lambda: ingest(spark, f"{lake}/events", **source),
            "published": lambda: ended(sink, f"{lake}/checkpoints/published"),  # noqa: B023 - called at once
            "forwarded": lambda: forward(
                spark, HubFeed(url, forwarded), checkpoint=f"{lake}/checkpoints/fwd", **source
            ),
        }
        for name, query in queries.items():
            moved[name] = moved.get(name, 0) + watch(query(), lambda _: None).events
    moved["exported"] = export(spark, f"{lake}/out", **source)
    moved["in the lake"] = spark.read.parquet(f"{lake}/events").select("partition", "offset").distinct().count()
    return moved


def republish(
    spark: SparkSession, *, url: str, sink: dict[str, str], event_type: str, checkpoint: str, shuffled: str
) -> None:
    """Publish a feed to another one in one micro-batch, behind a shuffle where that is wanted."""
    rows = (
        spark.readStream.format("penstock")
        .options(startingOffsets="earliest", url=url, eventType=event_type, minPartitions="4")
        .load()
    )
    data = SHUFFLED[shuffled](rows.select("data"))
    sink = sink | {"retryTimeout": "60 seconds"}
    ended(data.writeStream.format("penstock").options(**sink), checkpoint).awaitTermination()


def ended(writer: Any, checkpoint: str) -> Any:
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def plain(rows: DataFrame) -> DataFrame:
    return rows


def reordered(rows: DataFrame) -> DataFrame:
    """Have rows fall to tasks by the order in which they come, which is another one when they are shuffled again.

    What stands in between keeps Spark from making one shuffle of two.
    """
    return rows.repartition(4, "data").mapInArrow(same, rows.schema).repartition(8)


def random(rows: DataFrame) -> DataFrame:
    """The same, of rows that are others when they are made again."""
    return reordered(
        rows.select("data", rand().alias("r")).selectExpr(
            "concat('{\"n\":', get_json_object(data, '$.n'), ',\"r\":', r, '}') AS data"
        )
    )


def same(batches: Any) -> Any:
    return batches


SHUFFLED = {"plain": plain, "reordered": reordered, "random": random}
JOBS = {"read": read, "move": move, "republish": republish}


def main(job: str, given: str, file: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.dataSource.register(PenstockDataSource)
    found = JOBS[job](spark, **json.loads(given))
    Path(file).write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
