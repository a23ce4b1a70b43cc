"""A driver of its own, to be killed: `python -m tests.spark.republish FROM TO SOURCE TARGET CHECKPOINT [MARKS]`.

It publishes from one feed to another, in micro-batches of a hundred. With a folder for marks the first attempt of each
task fails after it has handed in rows.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

import penstock.spark


def failing_once(marks: Path) -> object:
    """Return a step that fails the first attempt of each task behind all of its rows."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        mark = marks / f"{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}"
        if context.attemptNumber() == 0:
            mark.touch()
            os._exit(1)  # As an executor dies, with what it has handed in so far.

    return step


def main(*given: str) -> None:
    """Publish what is there, and end."""
    source_url, sink_url, source, target, checkpoint, *marks = given
    spark = penstock.spark.session("republish", master="local[2,4]")
    rows = (
        spark.readStream.format("penstock").options(url=source_url, eventType=source, maxEventsPerTrigger="100").load()
    )
    data = rows.select("data")
    if marks:
        data = data.mapInArrow(failing_once(Path(marks[0])), "data string")  # type: ignore[arg-type]
    writer = data.writeStream.format("penstock").options(url=sink_url, eventType=target, retrySeconds="60")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
