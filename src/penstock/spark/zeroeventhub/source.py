"""format("zeroeventhub"): Spark's classes for it, each method a line or two over plain functions.

To learn the format's name, Spark loads this file in every session that reads any Python source: what reads, with Arrow,
is loaded when it reads.
"""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.core.log.cursor import LAST
from penstock.spark.columns import QueryColumn, some_of
from penstock.spark.options import bad_option
from penstock.spark.source import check_pyspark
from penstock.spark.zeroeventhub.columns import remote_schema
from penstock.spark.zeroeventhub.options import LANDING, RemoteOptions, parse_remote_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader


class RemoteFeedSource(DataSource):
    """A feed of any ZeroEventHub or FeedAPI server: `format("zeroeventhub")` of `read` and `readStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options of a query. Here, since a wrong one is to be refused before anything runs."""
        super().__init__(options)
        check_pyspark(pyspark.__version__)
        self._chosen = parse_remote_options(dict(options.items()))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "zeroeventhub"

    def schema(self) -> StructType:
        """Return all columns."""
        return remote_schema(include_headers=self._chosen.include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        if self._chosen.starting_cursors == LAST:
            raise bad_option("startingCursors", LAST, "_first or JSON in a batch, which would else be empty")
        return RemoteFeedReader(self._chosen, self._wanted(schema))

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """Return what reads a stream."""
        from penstock.spark.landing import file_system
        from penstock.spark.zeroeventhub.stream import RemoteFeedStreamReader

        if self._chosen.landing_location is None:
            raise bad_option("landingLocation", None, LANDING)
        file_system(self._chosen.landing_location)
        return RemoteFeedStreamReader(self._chosen, self._wanted(schema))

    def _wanted(self, schema: StructType) -> tuple[QueryColumn, ...]:
        return some_of(self.schema(), schema)


class RemoteFeedReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: RemoteOptions, columns: tuple[QueryColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks, one for each partition of the feed."""
        from penstock.spark.zeroeventhub.tasks import plan_batch

        return [InputPartition(cursors) for cursors in plan_batch(self._options)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        from penstock.spark.zeroeventhub.tasks import read_batch

        return read_batch(self._options, self._columns, partition.value)
