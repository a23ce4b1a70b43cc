"""The stream side of format("nakadi"), by the interface that PySpark has since 4.2."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.batches import events_max
from penstock.spark.columns import QueryColumn
from penstock.spark.nakadi.landed import decode_landed, encode_landed, pages_between
from penstock.spark.nakadi.options import SubscriptionOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.spark.nakadi.intake import SubscriptionIntake


class SubscriptionStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark calls one of these on the driver for as long as a query runs, and copies on executors."""

    def __init__(self, options: SubscriptionOptions, columns: tuple[QueryColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._intake: SubscriptionIntake | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_intake": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins: with nothing landed."""
        return encode_landed(self._driver.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what a micro-batch takes at most."""
        return ReadMaxRows(self._options.max_events_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Land the next micro-batch and return where it ends; *start* itself when nothing comes."""
        return encode_landed(self._driver.advance(decode_landed(start), events_max(limit)))

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where partitions end now: the query ends there, whatever else comes."""
        self._driver.aim()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch, one a page; the same events whenever it is planned again."""
        return [InputPartition(page) for page in pages_between(decode_landed(start), decode_landed(end))]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one page, on an executor."""
        from penstock.spark.nakadi.pages import read_page

        return read_page(self._options.landing_location, partition.value, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell Nakadi that Spark has committed all up to *end*."""
        self._driver.commit(decode_landed(end))

    def stop(self) -> None:
        """Close the stream: the query has ended."""
        if self._intake is not None:
            self._intake.close()

    @property
    def _driver(self) -> "SubscriptionIntake":
        """What only the driver has: it is made there when it is first needed."""
        if self._intake is None:
            from penstock.spark.nakadi.intake import SubscriptionIntake

            self._intake = SubscriptionIntake(self._options)
        return self._intake
