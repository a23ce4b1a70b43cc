"""Fills a lake of Delta: `python -m tests.spark.fill_delta JARS LAKE URL EVENT_TYPE`, on the oldest PySpark that works.

It fills it, runs its last micro-batch again as after a crash, and says in JSON which events are there. Beside that, it
reads the feed typed and publishes it to another one, EVENT_TYPE and `.again`; and it projects the lake's table, in two
rounds and once more after the last of them was not told to be whole, into a table of Delta beside it.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

import penstock.spark
from penstock.processing import Projection, StreamEvent
from penstock.spark.pipelines import ingest, watch
from penstock.spark.processors.sources.table import TableSource
from penstock.spark.projections.files import FilesTarget, read
from penstock.spark.projections.project import project

DELTA = {
    "spark.databricks.delta.snapshotPartitions": "2",  # Else fifty, for each look at a table.
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main(*given: str) -> None:
    """Do all of it, and end."""
    jars, lake, url, event_type = given
    spark = penstock.spark.session("delta", master="local[2]", config={"spark.jars": jars, **DELTA})
    source = {"url": url, "eventType": event_type, "payload": "typed"}

    def fill() -> int:
        return watch(ingest(spark, lake, format="delta", **source), lambda _: None).events

    events = fill()
    for commit in Path(lake, "_checkpoint", "commits").iterdir():
        commit.unlink()
    fill()

    feed = spark.read.format("penstock").options(**source).load()
    rows = feed.selectExpr("to_json(data) AS data")
    rows.write.format("penstock").mode("append").options(url=url, eventType=f"{event_type}.again").save()
    rounds, sums = folded(spark, lake)
    numbers = [row[0] for row in spark.read.format("delta").load(lake).select("data.n").collect()]
    sys.stdout.write(
        json.dumps(
            {"pyspark": pyspark.__version__, "events": events, "numbers": numbers, "rounds": rounds, "sums": sums}
        )
    )
    spark.stop()


@dataclass
class Sum:
    """What the numbers of a partition come to."""

    total: int = 0
    events: int = 0


def added(state: Sum, event: StreamEvent) -> Sum:
    """Add a number."""
    return Sum(state.total + event.data["n"], state.events + 1)


def by_tranche(event: StreamEvent) -> str:
    """Return the partition that it was in."""
    return event.tranche


SUMS = Projection("sums", Sum, added, key=by_tranche)


def folded(spark: SparkSession, lake: str) -> tuple[int, list[list[Any]]]:
    """Project a table; return in how many rounds, and the rows: tranche, total, events."""
    path = f"{lake}-sums"

    def source() -> TableSource:
        columns = {"index": "offset", "stream": "partition", "tranche": "partition", "data": "data"}
        return TableSource(lambda spark: spark.read.format("delta").load(lake), **columns)

    first = project(spark, FilesTarget(SUMS, path, format="delta"), source(), events_per_round=30)
    max(Path(path).glob("*/positions-*"), key=lambda each: int(each.name.rpartition("-")[2])).unlink()
    again = project(spark, FilesTarget(SUMS, path, format="delta"), source())
    rows = read(spark, SUMS, path, format="delta").collect()
    return first.rounds + again.rounds, sorted(list(row) for row in rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
