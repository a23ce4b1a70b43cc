"""Spark's classes for the formats of foreign servers.

To learn a format's name, Spark loads this file in every session that reads any Python source. A query of the format
loads the rest: Arrow, HTTP, the driver of a database. Streams are in `stream.py`, since they need the interface of
PySpark 4.2; this file may meet an older one.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.columns import QueryColumn, some_of
from penstock.spark.foreign.query import ForeignQuery, parse_query
from penstock.spark.source import check_pyspark
from penstock.spark.tracebacks import hide_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader


@hide_tracebacks
class ForeignSource(DataSource):
    """A source of the format *called*, whose module of this name has its `QUERY`."""

    called: ClassVar[str]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Parse the options of a query, so that a wrong one is refused before anything runs."""
        super().__init__(options)
        check_pyspark(pyspark.__version__)
        protocol = import_module(f"penstock.spark.foreign.{self.called}")
        self._query: ForeignQuery = parse_query(protocol.QUERY, dict(options.items()))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return cls.called

    def schema(self) -> StructType:
        """Return all columns."""
        return self._query.all_columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        self._query.check(is_stream=False)
        return ForeignReader(self._query, some_of(self.schema(), schema))

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """Return the reader of a stream."""
        from penstock.spark.foreign.stream import ForeignStreamReader

        self._query.check(is_stream=True)
        return ForeignStreamReader(self._query, some_of(self.schema(), schema))


class ZeroEventHubSource(ForeignSource):
    """A feed of any ZeroEventHub or FeedAPI server: `format("zeroeventhub")` of `read` and `readStream`."""

    called = "zeroeventhub"


class NakadiSource(ForeignSource):
    """A subscription of any Nakadi server: `format("nakadi")` of `readStream`."""

    called = "nakadi"


class CategorySource(ForeignSource):
    """The categories of a MessageDB: `format("messagedb")` of `read` and `readStream`."""

    called = "messagedb"


@hide_tracebacks
class ForeignReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, query: ForeignQuery, columns: tuple[QueryColumn, ...]) -> None:
        self._query = query
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. An empty one stands for none: Spark would make one up."""
        return [InputPartition(task) for task in self._query.plan() or [()]]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return self._query.read(self._columns, partition.value) if partition.value else iter(())
