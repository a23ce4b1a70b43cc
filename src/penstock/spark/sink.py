"""Publishes the rows of a query: each micro-batch, or each batch write, once.

Spark calls `write` for each task, on an executor, and `commit` on the driver, with the messages of the tasks that
succeeded.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import PenstockError
from penstock.spark.publishing import HubBatches, QueryBatch
from penstock.spark.registry import decimals_as_text
from penstock.spark.rows import EventRows
from penstock.spark.sink_options import SinkOptions
from penstock.spark.tracebacks import hide_tracebacks
from penstock.spark.upload import Uploaded, upload

if TYPE_CHECKING:
    import pyarrow as pa

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""The property in which Spark passes the batch number of a streaming query to tasks."""
JOB: Final = "spark-job"
"""The query id of batch writes with a given group and batch: equal names mean the same batch."""


def find_query_batch(options: SinkOptions) -> QueryBatch:
    """Return what the micro-batch is called that this task, on an executor, is one of."""
    context = TaskContext.get()
    assert context is not None
    query, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    assert query is not None, "Spark has not said which query this is"
    assert number is not None
    return QueryBatch(options.event_type, options.producer_group or f"spark.{query}", int(number), query)


def name_batch(options: SinkOptions) -> SinkOptions:
    """Return the options of a job, whose batch is the one that it names, or the only one of a group of its own."""
    if options.batch_id is not None:
        return options
    return replace(options, producer_group=f"spark.{uuid4()}", batch_id=0)


def of_job(options: SinkOptions) -> QueryBatch:
    """Return what the batch of a job is called, whose options are those of `name_batch`."""
    assert options.producer_group is not None
    assert options.batch_id is not None
    return QueryBatch(options.event_type, options.producer_group, options.batch_id, JOB)


_log: Final = logging.getLogger("penstock.spark")
Told = Sequence[WriterCommitMessage | None]


class _Sink:
    """The base of streams and batch writes. It is sent to executors, so it has plain values."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._rejects = options.on_invalid == "reject"
        self._hub = HubBatches(options.url, options.retry_timeout, options.credential)
        as_text = decimals_as_text(schema, lambda: self._hub.event_type(options.event_type))
        self._rows = EventRows(schema, options.event_type, rejects=self._rejects, as_text=as_text)

    def _upload(self, batch: QueryBatch, rows: "Iterator[pa.RecordBatch]") -> Uploaded:
        context = TaskContext.get()
        assert context is not None
        part = upload(self._hub, batch, self._rows, rows, rejects=self._rejects)
        return Uploaded(context.partitionId(), batch, part)

    def _publish(self, told: Told) -> None:
        done = sorted((each for each in told if isinstance(each, Uploaded)), key=lambda each: each.place)
        if done:
            found = self._hub.publish(done[0].batch, [each.part for each in done if each.part is not None])
            if found.rejected:
                _log.warning(
                    "batch %s of %r: %s rows were no valid events, and are kept among the rejected",
                    found.batch, found.producer_group, found.rejected,
                )  # fmt: skip

    def _drop(self, told: Told) -> None:
        for each in told:
            if isinstance(each, Uploaded) and each.part is not None:
                try:
                    self._hub.drop(each.batch.event_type, each.part.upload)
                except PenstockError as error:  # They expire by themselves, and nobody waits for each of them.
                    _log.warning("uploads could not be dropped: %s", error.detail)
                    return


@hide_tracebacks
class FeedStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Publishes the micro-batches of a streaming query."""

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Uploaded:
        """Hand in the rows of one task, on an executor."""
        return self._upload(find_query_batch(self._options), iterator)

    def commit(self, told: Told, batchId: int) -> None:  # noqa: ARG002 - the tasks have been told, too
        """Publish a micro-batch, on the driver."""
        self._publish(told)

    def abort(self, told: Told, batchId: int) -> None:  # noqa: ARG002 - likewise
        """Forget what the tasks of a micro-batch have handed in."""
        self._drop(told)


@hide_tracebacks
class FeedWriter(_Sink, DataSourceArrowWriter):
    """Publishes what a batch query writes."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(name_batch(options), schema)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Uploaded:
        """Hand in the rows of one task, on an executor."""
        return self._upload(of_job(self._options), iterator)

    def commit(self, told: Told) -> None:
        """Publish them, on the driver."""
        self._publish(told)

    def abort(self, told: Told) -> None:
        """Forget what the tasks have handed in."""
        self._drop(told)
