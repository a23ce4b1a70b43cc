"""The reader of a stream of a foreign server, by the interface that PySpark has since 4.2."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.columns import QueryColumn
from penstock.spark.foreign.query import ForeignQuery, ForeignStream, encode_offset
from penstock.spark.planning import events_max
from penstock.spark.tracebacks import hide_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa


@hide_tracebacks
class ForeignStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark calls one of these on the driver for as long as a query runs, and copies on executors."""

    def __init__(self, query: ForeignQuery, columns: tuple[QueryColumn, ...]) -> None:
        self._query = query
        self._columns = columns
        self._begun: Any = None
        """Where the last micro-batch began."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "driver"}

    @cached_property
    def driver(self) -> ForeignStream[Any]:
        """The part that stays on the driver. It is created on first use, which executors never make of it."""
        return self._query.stream()

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        found: dict[str, Any] = encode_offset(self.driver.begin())
        return found

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the most that a micro-batch takes."""
        return ReadMaxRows(self._query.max_events_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends; *start* itself if there is nothing new."""
        begin = self._query.decode(start)
        end = self.driver.advance(begin, events_max(limit))
        return start if end == begin else encode_offset(end)

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query where its partitions end now."""
        self.driver.end_now()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the partitions ended when that was last seen, for the query's progress."""
        newest = self.driver.newest()
        return None if newest is None else encode_offset(newest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; they read the same events whenever it is planned again."""
        self._begun = self._query.decode(start)
        return [InputPartition(task) for task in self.driver.plan(self._begun, self._query.decode(end))]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return self._query.read(self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that Spark has committed the micro-batch to *end*."""
        self.driver.commit(self._begun, self._query.decode(end))

    def stop(self) -> None:
        """Close what is open: the query has ended."""
        if "driver" in vars(self):
            self.driver.close()
