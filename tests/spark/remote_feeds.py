"""Feeds from afar for tests: a stream that reads one, with Spark and without."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.spark.columns import some_of
from penstock.spark.foreign.query import parse_query
from penstock.spark.foreign.stream import ForeignStreamReader
from penstock.spark.foreign.zeroeventhub import SCHEMA, FeedQuery
from tests.spark.queries import Query

Offset = dict[str, Any]


class RemoteQuery(Query):
    """A stream of a feed from afar; run after run from one checkpoint."""

    format = "zeroeventhub"
    place = ("partition", "number", "data")

    def __init__(self, spark: SparkSession, url: str, folder: Path, **options: str) -> None:
        super().__init__(spark, {"url": url, "landingLocation": str(folder / "landing")} | options, folder)
        self.landing = folder / "landing"

    @property
    def events(self) -> list[tuple[int, str]]:
        """The events that were read, repeats included, each with its partition, in the order of their numbers."""
        return [(partition, data) for partition, _, data in self.places]


class Steps:
    """What Spark has a stream do, step by step and without Spark: each reader is a driver that has been started."""

    def __init__(self, url: str, folder: Path, **options: str) -> None:
        self.options = {"url": url, "landingLocation": str(folder), "includeHeaders": "true"} | options

    def reader(self, **options: str) -> ForeignStreamReader:
        """Return a reader that knows nothing but the options."""
        chosen = parse_query(FeedQuery, self.options | options)
        return ForeignStreamReader(chosen, some_of(SCHEMA, SCHEMA))

    @staticmethod
    def rows(reader: ForeignStreamReader, start: Offset, end: Offset) -> list[tuple[int, int, str]]:
        """Return what the tasks of a micro-batch read: partition, number and data of each row."""
        return [
            (row["partition"], row["number"], row["data"])
            for task in reader.partitions(start, end)
            for batch in reader.read(task)
            for row in batch.to_pylist()
        ]

    @staticmethod
    def micro_batches(
        reader: ForeignStreamReader, start: Offset, events_max: int | None = None
    ) -> Iterator[tuple[Offset, list[tuple[int, int, str]]]]:
        """Run micro-batches until there is nothing new; yield where each ends, and its rows."""
        limit: ReadLimit = ReadAllAvailable() if events_max is None else ReadMaxRows(events_max)
        while (end := reader.latestOffset(start, limit)) != start:
            yield end, Steps.rows(reader, start, end)
            reader.commit(end)
            start = end

    def run(
        self, start: Offset | None = None, events_max: int | None = None, **options: str
    ) -> tuple[Offset, list[list[tuple[int, int, str]]]]:
        """Read what is available from *start*, or as a new query; return where that ends, and rows by micro-batch."""
        reader = self.reader(**options)
        reader.prepareForTriggerAvailableNow()
        begin = reader.initialOffset() if start is None else start
        done = list(self.micro_batches(reader, begin, events_max))
        return (done[-1][0] if done else begin), [rows for _, rows in done]
