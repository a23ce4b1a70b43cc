"""Reads the same events as typed columns with Spark, on this machine: from the feed, from Kafka, or from files."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import StructType

from bench.events import AFTER, BEFORE, DIGITS
from bench.load.program import Run, serve
from penstock.spark import session

TOPIC: Final = "bench"


def make(
    *,
    hubs: Mapping[str, str],
    feed: str,
    files: str,
    broker: str,
    jars: str,
    events: int,
    partitions: int,
    directory: str,
) -> Run:
    """Start Spark, and write the *events* into Kafka. *jars* are those of Spark's connector."""
    config = {"spark.log.level": "ERROR", "spark.driver.memory": "2g", "spark.jars": jars}
    spark = session("penstock-bench", config=config)
    fill(spark, broker, events, partitions)
    columns = from_feed(spark, next(iter(hubs.values())), feed).schema["data"].dataType
    assert isinstance(columns, StructType)
    reads: dict[str, Callable[[], DataFrame]] = {
        **{kind: partial(from_feed, spark, url, feed) for kind, url in hubs.items()},
        "kafka": lambda: from_kafka(spark, broker, columns),
        "json": lambda: spark.read.schema(columns).json(files),
    }

    def run(what: str, into: str) -> dict[str, Any]:
        place = f"{directory}/{what}-{into}"  # noop goes nowhere.
        started = time.perf_counter()
        reads[what]().write.format(into).mode("overwrite").save(place)
        return {"seconds": time.perf_counter() - started}

    return run


def fill(spark: SparkSession, broker: str, events: int, partitions: int) -> None:
    """Write the events numbered from 0 on, one to each partition in turn."""
    text = f"concat('{BEFORE}', lpad(string(id), {DIGITS}, '0'), '{AFTER}') AS value"
    rows = spark.range(events).selectExpr(text, f"int(id % {partitions}) AS partition")
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker).option("topic", TOPIC).save()


def from_feed(spark: SparkSession, url: str, feed: str) -> DataFrame:
    return spark.read.format("penstock").options(url=url, eventType=feed, payload="typed").load()


def from_kafka(spark: SparkSession, broker: str, columns: StructType) -> DataFrame:
    """Read what a feed has, too: the events, and where and when each came in."""
    options = {"kafka.bootstrap.servers": broker, "subscribe": TOPIC}
    data = from_json(col("value").cast("string"), columns).alias("data")
    return spark.read.format("kafka").options(**options).load().select("*", data).drop("value")


if __name__ == "__main__":
    serve(make)
