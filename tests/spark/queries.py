"""A stream of a source, run after run."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


class Query:
    """A stream of a source, which keeps every run's rows; run after run from one checkpoint."""

    format = "penstock"
    place = ("partition", "offset")
    """The columns that tell where an event is."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self.spark = spark
        self.options = options
        self.checkpoint = folder / "checkpoint"
        self.batches: list[tuple[int, list[tuple[Any, ...]]]] = []
        """By micro-batch, in the order they ran: its number, and the place of each row."""
        self.columns: list[str] = []
        """Of the events of each micro-batch: their type."""

    def run(self, **options: str) -> list[dict[str, Any]]:
        """Read what is available and return the progress of each micro-batch."""
        query = self.start(availableNow=True, **options)
        try:
            assert query.awaitTermination(300), "the query did not end"
            return [json.loads(progress.json) for progress in query.recentProgress]
        finally:
            query.stop()

    def start(self, *, availableNow: bool = False, **options: str) -> Any:  # noqa: N803 - Spark's word
        def keep(rows: DataFrame, number: int) -> None:
            places = [tuple(row) for row in rows.select(*self.place).collect()]
            self.batches.append((number, sorted(places)))
            self.columns.append(rows.schema["data"].dataType.simpleString().removeprefix("struct<").removesuffix(">"))

        start = {"startingOffsets": "earliest"} if self.format == "penstock" else {}
        stream = self.spark.readStream.format(self.format).options(**(start | self.options | options)).load()
        trigger: dict[str, Any] = {"availableNow": True} if availableNow else {"processingTime": "0 seconds"}
        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    def forget_commit(self, number: int) -> None:
        """Have the checkpoint look as if Spark had died at the end of a micro-batch, before noting that it is done."""
        for suffix in ("", ".crc"):
            name = f".{number}{suffix}" if suffix else str(number)
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    @property
    def places(self) -> list[tuple[Any, ...]]:
        """What was read, repeats included."""
        return sorted(place for _, places in self.batches for place in places)


def offsets_in(progress: dict[str, Any], which: str = "endOffset") -> dict[str, Any]:
    """Return an offset of the progress of a micro-batch."""
    offset = progress["sources"][0][which]
    parsed: dict[str, Any] = json.loads(offset) if isinstance(offset, str) else offset
    return parsed
