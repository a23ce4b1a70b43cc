"""format("messagedb"): Spark's classes for it, each method a line or two over plain functions.

To learn the format's name, Spark loads this file in every session that reads any Python source: what reads, with Arrow
and the driver of the database, is loaded when it reads.
"""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.spark.columns import QueryColumn, some_of
from penstock.spark.messagedb.columns import SCHEMA
from penstock.spark.messagedb.options import CategoryOptions, parse_category_options
from penstock.spark.options import bad_option
from penstock.spark.source import check_pyspark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader


class CategoryDataSource(DataSource):
    """The categories of a MessageDB: `format("messagedb")` of `read` and `readStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options of a query. Here, since a wrong one is to be refused before anything runs."""
        super().__init__(options)
        check_pyspark(pyspark.__version__)
        self._chosen = parse_category_options(dict(options.items()))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "messagedb"

    def schema(self) -> StructType:
        """Return all columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        if self._chosen.starting_offsets == "latest":
            raise bad_option("startingOffsets", "latest", "earliest or JSON in a batch, which would else be empty")
        return CategoryReader(self._chosen, some_of(SCHEMA, schema))

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """Return what reads a stream."""
        from penstock.spark.messagedb.stream import CategoryStreamReader

        if "endingOffsets" in self.options:
            raise bad_option("endingOffsets", self.options["endingOffsets"], "in a batch only; a stream has no end")
        return CategoryStreamReader(self._chosen, some_of(SCHEMA, schema))


class CategoryReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: CategoryOptions, columns: tuple[QueryColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. One that reads nothing stands for none: Spark would make one up."""
        from penstock.spark.messagedb.tasks import plan_batch

        return [InputPartition(task) for task in plan_batch(self._options) or [()]]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        from penstock.spark.messagedb.tasks import read_task

        return read_task(self._options, self._columns, partition.value)
