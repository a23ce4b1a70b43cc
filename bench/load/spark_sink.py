"""Publishes the same rows with Spark, on this machine: in mode staged, or direct."""

import time
from typing import Any

from bench.load.program import Run, serve
from penstock.spark import direct, session


def make(url: str, feed: str, files: str) -> Run:
    """Start Spark."""
    spark = session("penstock-bench", config={"spark.log.level": "ERROR", "spark.driver.memory": "2g"})
    rows = spark.read.text(files).withColumnRenamed("value", "data")
    sink = {"url": url, "eventType": feed}

    def run(mode: str) -> dict[str, Any]:
        started = time.perf_counter()
        if mode == "direct":
            direct(rows, **sink).save()
        else:
            rows.write.format("penstock").mode("append").options(**sink).save()
        return {"seconds": time.perf_counter() - started}

    return run


if __name__ == "__main__":
    serve(make)
