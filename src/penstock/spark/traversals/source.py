"""format("periodic"): a stream of the starts of traversals, a row for each. `penstock.spark.periodic` registers it."""

import time
from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StructField, StructType

from penstock.processing.sources.periodic import Timetable
from penstock.spark.options import select_options, whole_seconds
from penstock.spark.tracebacks import hide_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa

START: Final = "start"
INTERVAL: Final = "interval"


@hide_tracebacks
class PeriodicDataSource(DataSource):
    """The starts of traversals: `format("periodic")` of `readStream`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        values = select_options(dict(options.items()), [INTERVAL])
        self._interval = whole_seconds(INTERVAL, values.get(INTERVAL, ""))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "periodic"

    def schema(self) -> StructType:
        """Return the only column: when a traversal starts, in seconds since 1970."""
        return StructType([StructField(START, LongType(), False)])

    def streamReader(self, schema: StructType) -> "PeriodicStreamReader":  # noqa: ARG002 - there is only one
        """Return what reads the stream."""
        return PeriodicStreamReader(Timetable(self._interval, clock=time.time, elapsed=time.monotonic))


class PeriodicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Has a micro-batch whenever a traversal is due; its end is the start of the traversal.

    So Spark's log of offsets remembers the start before the traversal begins, and has it come again with the same one.
    """

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._is_single = False
        """True if one traversal at most is wanted, if it is due."""
        self._is_over = False

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first traversal."""
        return {START: None}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return that there is no limit: a traversal is one row here."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002 - there is none
        """Return the start of the next traversal; *start* itself where it is not due."""
        if self._is_over:
            return start
        self._is_over = self._is_single
        due = self._timetable.next_start(start[START])
        return start if due is None else {START: due}

    def prepareForTriggerAvailableNow(self) -> None:
        """Note that the query ends after one traversal, however long it takes."""
        self._is_single = True

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the task that tells the start of the traversal; none between an offset and itself."""
        return [] if start == end else [InputPartition(end[START])]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Tell the start of a traversal, on an executor."""
        import pyarrow as pa

        schema = pa.schema([pa.field(START, pa.int64(), nullable=False)])
        yield pa.RecordBatch.from_pydict({START: [partition.value]}, schema=schema)
