"""The streaming query that traverses a data frame again and again."""

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import BadParameter
from penstock.spark.options import whole_seconds
from penstock.spark.traversals.numbering import ROWS_MAX, number_rows
from penstock.spark.traversals.source import INTERVAL, START, PeriodicDataSource

LOOK: Final = "1 second"
"""How often a query looks whether a traversal is due."""


def periodic(
    spark: SparkSession,
    rows: Callable[[SparkSession], DataFrame],
    write: Callable[[DataFrame, int], object],
    *,
    checkpoint: str,
    interval: str = "1 hour",
    available_now: bool = False,
) -> StreamingQuery:
    """Start a query that traverses *rows* on an interval, and passes each traversal to *write*, with positions.

    The rows of a traversal have a column `position`, without holes from the start of the traversal on, larger than all
    of earlier traversals. After a restart, the query repeats a failed or interrupted traversal from its first row, with
    the same start.

    Args:
        spark: The session in which it runs.
        rows: Makes the data frame for each traversal. It is persisted while the traversal lasts.
        write: Called with the numbered rows and the position of the first one, which identifies the traversal.
        checkpoint: Where Spark stores the starts of traversals. Each query needs one of its own.
        interval: From the start of a traversal to the start of the next, a duration such as `30s`, `15 minutes`, `1d`.
        available_now: End after one traversal, or none if it is not due.

    Raises:
        BadParameter: the interval is invalid. By the query: the data frame is a stream, has a column `position`, or
            more than 1 000 000 000 rows.
    """
    whole_seconds("interval", interval)
    spark.dataSource.register(PeriodicDataSource)

    def traverse(starts: DataFrame, _: int) -> None:
        for row in starts.collect():
            write_numbered(rows(spark), row[START] * ROWS_MAX, write)

    starts = spark.readStream.format(PeriodicDataSource.name()).option(INTERVAL, interval).load()
    trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": LOOK}
    return starts.writeStream.foreachBatch(traverse).option("checkpointLocation", checkpoint).trigger(**trigger).start()


def write_numbered(rows: DataFrame, first: int, write: Callable[[DataFrame, int], object]) -> None:
    """Hand *rows* to *write* with positions from *first* on; they stay the same until it returns.

    Raises:
        BadParameter: see `periodic`.
    """
    if rows.isStreaming:
        raise BadParameter(parameter="rows", value="a stream", allowed="a data frame of spark.read, of a table …")
    was_persisted = rows.storageLevel.useMemory or rows.storageLevel.useDisk
    kept = rows if was_persisted else rows.persist()
    try:
        write(number_rows(kept, first), first)
    finally:
        if not was_persisted:  # Else that is somebody else's business.
            kept.unpersist()
