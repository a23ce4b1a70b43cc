"""What a batch is called that a query publishes: as Spark tells its tasks, or as the options of a job say."""

from dataclasses import replace
from typing import Final
from uuid import uuid4

from pyspark import TaskContext

from penstock.spark.publishing import QueryBatch
from penstock.spark.sink_options import SinkOptions

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""What Spark tells its tasks of a streaming query."""
JOB: Final = "spark-job"
"""The query of batch writes whose group and batch were named: whoever names the same means the same."""


def streamed(options: SinkOptions) -> QueryBatch:
    """Return what the micro-batch is called that this task, on an executor, is one of."""
    context = TaskContext.get()
    assert context is not None
    query, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    assert query is not None, "Spark has not said which query this is"
    assert number is not None
    return QueryBatch(options.event_type, options.producer_group or f"spark.{query}", int(number), query)


def named(options: SinkOptions) -> SinkOptions:
    """Return the options of a job, whose batch is the one that it names, or the only one of a group of its own."""
    if options.batch_id is not None:
        return options
    return replace(options, producer_group=f"spark.{uuid4()}", batch_id=0)


def of_job(options: SinkOptions) -> QueryBatch:
    """Return what the batch of a job is called, whose options are `named`."""
    assert options.producer_group is not None
    assert options.batch_id is not None
    return QueryBatch(options.event_type, options.producer_group, options.batch_id, JOB)
