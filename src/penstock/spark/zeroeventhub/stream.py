"""The stream side of format("zeroeventhub"), by the interface that PySpark has since 4.2."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.batches import events_max
from penstock.spark.columns import QueryColumn
from penstock.spark.tasks import cores
from penstock.spark.zeroeventhub.intake import FeedIntake
from penstock.spark.zeroeventhub.options import RemoteOptions
from penstock.spark.zeroeventhub.places import LandedPlaces, decode_landed, encode_landed
from penstock.spark.zeroeventhub.tasks import plan_micro_batch, read_task

if TYPE_CHECKING:
    import pyarrow as pa


class RemoteFeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark calls one of these on the driver for as long as a query runs, and copies on executors."""

    def __init__(self, options: RemoteOptions, columns: tuple[QueryColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._intake = FeedIntake(options)
        self._begun: LandedPlaces | None = None
        """Where the last micro-batch began."""

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins: with a landing of its own."""
        return encode_landed(self._intake.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what a micro-batch takes at most."""
        return ReadMaxRows(self._options.max_events_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Land pages, and return where they end; *start* itself when there is nothing new."""
        landed = decode_landed(start)
        end = self._intake.advance(landed, events_max(limit))
        return start if end == landed else encode_landed(end)

    def prepareForTriggerAvailableNow(self) -> None:
        """Have the query end where its partitions do."""
        self._intake.end_where_partitions_do()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return nothing: where a feed ends, its server does not say."""
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same pages whenever it is planned again."""
        self._begun, ends = decode_landed(start), decode_landed(end)
        return [InputPartition(task) for task in plan_micro_batch(self._options, self._begun, ends, cores())]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return read_task(self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Delete the pages before the micro-batch that has ended: its own stay, should Spark run it again."""
        ended = decode_landed(end)
        if self._begun is not None and self._begun.landing == ended.landing:
            self._intake.forget(self._begun, ended)
