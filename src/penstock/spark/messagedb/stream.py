"""The stream side of format("messagedb"), by the interface that PySpark has since 4.2."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.batches import events_max
from penstock.spark.checkpoint import tell_beginning, tell_difference
from penstock.spark.columns import QueryColumn
from penstock.spark.messagedb.batches import next_end
from penstock.spark.messagedb.options import CategoryOptions, start_of
from penstock.spark.messagedb.places import CategoryPlace, decode_places, encode_places, opening, stretches_between
from penstock.spark.messagedb.tasks import database_of, plan_stretches, read_task

if TYPE_CHECKING:
    import pyarrow as pa

_log: Final = logging.getLogger("penstock.spark")


class CategoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark calls one of these on the driver for as long as a query runs, and copies on executors."""

    def __init__(self, options: CategoryOptions, columns: tuple[QueryColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._database = database_of(options)
        self._target: dict[str, int] | None = None
        self._seen: dict[str, int] | None = None
        self._is_new = False
        """Whether no micro-batch of the query has ended yet."""
        self._checked = False
        """Whether the checkpoint has been held against the options, and against the database."""

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        self._is_new = True
        starts = {category: start_of(self._options, category, head) for category, head in self._look().items()}
        return encode_places(opening(starts))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what a micro-batch takes at most."""
        return ReadMaxRows(self._options.max_events_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends; *start* itself when there is nothing new."""
        heads, places = self._target or self._look(), decode_places(start)
        self._check(places, heads)
        end = next_end(places, heads, events_max(limit), self._database)
        return start if end is None else encode_places(end)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the categories end now: the query ends there, whatever else comes."""
        self._target = self._look()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the categories ended when last seen, for the query's progress."""
        return None if self._seen is None else {**self._seen}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same events whenever it is planned again."""
        stretches = stretches_between(decode_places(start), decode_places(end))
        return [InputPartition(task) for task in plan_stretches(self._options, stretches, self._database)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return read_task(self._options, self._columns, partition.value)

    def stop(self) -> None:
        """Close the connection: the query has ended."""
        self._database.close()

    def _look(self) -> dict[str, int]:
        self._seen = self._database.heads(self._options.categories)
        return self._seen

    def _check(self, places: Mapping[str, CategoryPlace], heads: Mapping[str, int]) -> None:
        """Tell, once and as warnings in the log, what of a checkpoint is not as options and database would have it."""
        if self._checked:
            return
        self._checked = True
        if self._options.starting_offsets != "earliest" and not self._is_new:
            tell_beginning()
        tell_difference(places, self._options.categories, "category")
        for category, head in heads.items():
            if not self._is_new and category in places and head < places[category].next:
                _log.warning(
                    "%r ends at global position %d, before %d, where the query is: events were deleted, or an older "
                    "database was put in place; what comes below it is not read",
                    category, head, places[category].next,
                )  # fmt: skip
