"""Reads the same sealed events with Spark, on this machine: by `format("penstock")`, or as files."""

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from bench.load.program import Run, serve
from penstock.spark import session


def make(*, url: str, feed: str, files: str, cold: str) -> Run:
    """Start Spark."""
    spark = session("penstock-bench", config={"spark.log.level": "ERROR", "spark.driver.memory": "2g"})

    def from_feed(schema: str | None = None, **options: str) -> DataFrame:
        reader = spark.read.format("penstock").options(url=url, eventType=feed, payload="typed", **options)
        return (reader if schema is None else reader.schema(schema)).load()

    tier = {"coldTier": f"file://{cold}"}
    columns = from_feed().schema["data"].dataType
    three = "data struct<count_0: bigint, amount_5: double, name_5: string>"
    same = ("partition", "offset", "key", "kind", "received_at", "typed", "rescued_data")
    reads: dict[str, Callable[[], DataFrame]] = {
        "cold": lambda: from_feed(**tier),
        "three": lambda: from_feed(three, **tier),
        "hub": from_feed,
        "parquet": lambda: spark.read.option("recursiveFileLookup", "true").parquet(f"{cold}/{feed}").select(*same),
        "json": lambda: spark.read.schema(columns).json(files),  # type: ignore[arg-type]  # It is a struct.
    }

    def run(what: str) -> dict[str, Any]:
        started = time.perf_counter()
        reads[what]().write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - started}

    return run


if __name__ == "__main__":
    serve(make)
