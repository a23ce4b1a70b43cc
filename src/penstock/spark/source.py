"""format("penstock"): Spark's classes for it, each method a line or two over plain functions.

Streams are in `stream.py`, which needs the interface of PySpark 4.2; only this file may meet an older one. To learn the
format's name, Spark loads this file in every session that reads any Python source: what reads is loaded when it reads.
"""

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.errors import BadParameter, RequirementMissing
from penstock.spark.columns import QueryColumn, choose_columns, source_schema, versions_of
from penstock.spark.options import NAMES, SourceOptions, bad_option, parse_options, select_options
from penstock.spark.sink_options import OF_STREAMS, SINK_NAMES, SINK_ONLY, parse_sink_options
from penstock.spark.tracebacks import hide_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter

PYSPARK_OLDEST: Final = (4, 2)


@hide_tracebacks
class PenstockDataSource(DataSource):
    """The feeds of a hub: `format("penstock")` of `read`, `readStream`, `write` and `writeStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options of a query. Here, since a wrong one is to be refused before anything runs."""
        super().__init__(options)
        check_pyspark(pyspark.__version__)
        self._given = dict(options.items())
        # Whether somebody reads or writes is not known yet.
        ours = {name: value for name, value in self._given.items() if name.lower() not in OF_STREAMS}
        select_options(ours, dict.fromkeys((*NAMES, *SINK_NAMES)))
        if SINK_ONLY & {name.lower() for name in self._given}:
            parse_sink_options(self._given)
        else:
            parse_options(self._given)

    @property
    def _chosen(self) -> SourceOptions:
        return parse_options(self._given)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> StructType:
        """Return all columns; those of typed events as the hub's registry has them now."""
        if self._chosen.payload == "json":
            return source_schema(self._chosen)
        from penstock.spark.connection import RemoteHub
        from penstock.spark.registry import find_typed_columns

        hub = RemoteHub(self._chosen.url, self._chosen.retry_timeout, self._chosen.credential)
        return source_schema(self._chosen, find_typed_columns(hub, self._chosen))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a batch."""
        if self._chosen.starting_offsets == "latest":
            raise bad_option("startingOffsets", "latest", "earliest or JSON in a batch, which would else be empty")
        if self._chosen.consumer_group is not None:
            allowed = "in a stream only: a batch has no progress to show"
            raise bad_option("consumerGroup", self._chosen.consumer_group, allowed)
        return FeedReader(self._chosen, choose_columns(schema, self._chosen))

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":
        """Return what reads a stream."""
        from penstock.spark.stream import FeedStreamReader

        if "endingOffsets" in self.options:
            raise bad_option("endingOffsets", self.options["endingOffsets"], "in a batch only; a stream has no end")
        return FeedStreamReader(self._chosen, choose_columns(schema, self._chosen), versions_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        """Return what publishes a batch."""
        from penstock.spark.sink import FeedWriter

        if overwrite:
            detail = 'df.write.mode("overwrite") is not offered: what is in a feed stays; right is mode("append")'
            raise BadParameter(detail, parameter="mode", value="overwrite", allowed="append")
        options = parse_sink_options(self._given)
        if options.producer_group is not None and options.batch_id is None:
            raise bad_option("batchId", None, "a whole number beside producerGroup: which batch of the group this is")
        return FeedWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":
        """Return what publishes the micro-batches of a stream."""
        from penstock.spark.sink import FeedStreamWriter

        if overwrite:
            detail = (
                'outputMode("complete") is not offered: what is in a feed stays; right is outputMode("append"), or '
                '"update" by foreachBatch, which publishes what has changed: see "Publish an aggregate" in '
                "docs/guides/spark/publishing.md"
            )
            raise BadParameter(detail, parameter="outputMode", value="complete", allowed="append")
        options = parse_sink_options(self._given)
        if options.batch_id is not None:
            raise bad_option("batchId", options.batch_id, "in a batch write only: a stream's batches have numbers")
        return FeedStreamWriter(options, schema)


@hide_tracebacks
class FeedReader(DataSourceReader):
    """Reads a batch."""

    def __init__(self, options: SourceOptions, columns: tuple[QueryColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks. One that reads nothing stands for none: Spark would make one up."""
        from penstock.spark.tasks import plan_batch

        return [InputPartition(task) for task in plan_batch(self._options) or [()]]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        from penstock.spark.tasks import read_task

        return read_task(self._options, self._columns, partition.value)


def check_pyspark(version: str) -> None:
    """Raise RequirementMissing unless PySpark's *version* has the interface that we are written for."""
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < PYSPARK_OLDEST:
        raise RequirementMissing(
            needed=f"PySpark {PYSPARK_OLDEST[0]}.{PYSPARK_OLDEST[1]} or newer",
            found=version,
            install="pip install 'penstock-hub[spark]'",
        )
