"""Cancels what Spark does for a thread that waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession


@contextmanager
def cancellable(spark: SparkSession) -> Iterator[Callable[[], object]]:
    """Lend what cancels all that this thread has Spark do in the block; any thread may call it, and more than once.

    Who waits for Spark is told by it. Calls that go on are ended with their processes, a few seconds later.
    """
    tag = f"penstock-{uuid4().hex}"
    add, remove, cancel = _named(spark)
    add(tag)
    try:
        yield lambda: cancel(tag)
    finally:
        remove(tag)


def _named(spark: SparkSession) -> tuple[Callable[[str], Any], Callable[[str], Any], Callable[[str], Any]]:
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001 - PySpark says in several ways that a session has no context.
        return spark.addTag, spark.removeTag, spark.interruptTag
    # A session's own tags are not those of the jobs that a data frame is collected by.
    return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
