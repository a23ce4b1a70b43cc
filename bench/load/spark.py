"""Reads the same rows with Spark, on this machine, into noop: from the feed, or from files of the same events."""

import time
from typing import Any

from bench.events import SPARK_SCHEMA
from bench.load.program import Run, serve
from penstock.spark import session


def make(url: str, feed: str, files: str) -> Run:
    """Start Spark."""
    spark = session("penstock-bench", config={"spark.log.level": "ERROR", "spark.driver.memory": "2g"})
    reads: dict[str, Any] = {
        "feed": lambda: spark.read.format("penstock").option("url", url).option("eventType", feed).load(),
        "text": lambda: spark.read.text(files),
        "json": lambda: spark.read.schema(SPARK_SCHEMA).json(files),
    }

    def run(what: str) -> dict[str, Any]:
        started = time.perf_counter()
        reads[what]().write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - started}

    return run


if __name__ == "__main__":
    serve(make)
