"""Fills a lake of Delta: `python -m tests.spark.fill_delta JARS LAKE URL EVENT_TYPE`, on the oldest PySpark that works.

It fills it, runs its last micro-batch again as after a crash, and says in JSON which events are there. Beside that, it
reads the feed typed and publishes it to another one, EVENT_TYPE and `.again`.
"""

import json
import sys
from pathlib import Path

import pyspark

import penstock.spark
from penstock.spark.pipelines import ingest, watch

DELTA = {
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
    numbers = [row[0] for row in spark.read.format("delta").load(lake).select("data.n").collect()]
    sys.stdout.write(json.dumps({"pyspark": pyspark.__version__, "events": events, "numbers": numbers}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
