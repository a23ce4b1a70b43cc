"""Runs a processor with Spark, on this machine, and beside it the same events through a shuffle into nothing."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bench.load.program import Run, serve
from penstock.processing import Rules
from penstock.spark import session
from penstock.spark.processors.processor import SparkProcessor


def make(url: str, feed: str) -> Run:
    """Start Spark."""
    spark = session("penstock-bench", config={"spark.log.level": "OFF", "spark.driver.memory": "2g"})

    def run(what: str) -> dict[str, Any]:
        began = time.perf_counter()
        if what == "processor":
            processor = SparkProcessor(spark, _nothing, url, feed, rules=Rules(events_ahead=1_000_000))
            while processor.step():
                pass
            processor.close()
        else:
            rows = spark.read.format("penstock").options(url=url, eventType=feed).load()
            rows.repartition(2, "key").mapInArrow(_through, "n int").count()
        return {"seconds": time.perf_counter() - began}

    return run


def _nothing(stream: str, events: Sequence[Any]) -> None:
    """Handle events by doing nothing."""


def _through(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()


if __name__ == "__main__":
    serve(make)
