"""Publishes the same rows with Spark, on this machine."""

import time
from typing import Any

from bench.load.program import Run, serve
from penstock.spark import session


def make(url: str, feed: str, files: str) -> Run:
    """Start Spark."""
    spark = session("penstock-bench", config={"spark.log.level": "ERROR", "spark.driver.memory": "2g"})
    rows = spark.read.text(files).withColumnRenamed("value", "data")

    def run() -> dict[str, Any]:
        started = time.perf_counter()
        rows.write.format("penstock").mode("append").options(url=url, eventType=feed).save()
        return {"seconds": time.perf_counter() - started}

    return run


if __name__ == "__main__":
    serve(make)
