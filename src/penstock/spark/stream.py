"""The stream side of format("penstock"), by the interface that PySpark has since 4.2."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.spark.checkpoint import add_versions, check_checkpoint, find_unwanted_places
from penstock.spark.columns import QueryColumn
from penstock.spark.connection import MirroredGroup, RemoteHub
from penstock.spark.heads import Heads, at_offsets, beginning, raise_heads
from penstock.spark.mirror import Mirror, find_newest_reset
from penstock.spark.offsets import FeedPlace, decode_places, encode_places
from penstock.spark.options import SourceOptions
from penstock.spark.planning import events_max, next_end, opening, plan_tasks, ranges_between
from penstock.spark.tasks import cores, read_task
from penstock.spark.tracebacks import hide_tracebacks

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Holding:
    """Delays micro-batches with fewer events than a minimum, up to a time since the last one."""

    events_min: int | None
    """None: none is held back."""
    seconds_max: float
    """Since the last one; of the first, since this was made."""
    clock: Callable[[], float] = time.monotonic
    _last_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._last_at = self.clock()

    def holds(self, events: int) -> bool:
        """Return whether a micro-batch of this many *events* has to wait; if not, it begins now."""
        now = self.clock()
        if self.events_min is not None and events < self.events_min and now < self._last_at + self.seconds_max:
            return True
        self._last_at = now
        return False


@hide_tracebacks
class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Spark calls one of these on the driver for as long as a query runs, and copies on executors."""

    def __init__(self, options: SourceOptions, columns: tuple[QueryColumn, ...], versions: Mapping[str, str]) -> None:
        """Read *columns*; *versions* are those of the schemas that typed ones were made of, by event type."""
        self._options = options
        self._columns = columns
        self._versions = dict(versions)
        self._hub = RemoteHub(options.url, options.retry_timeout, options.credential)
        self._mirror = (
            None if options.consumer_group is None else Mirror(MirroredGroup(self._hub, options.consumer_group))
        )
        self._holding = Holding(options.min_events_per_trigger, options.max_trigger_delay)
        self._target: dict[str, Heads] | None = None
        self._seen: dict[str, Heads] | None = None
        self._is_new = False
        """True if no micro-batch of the query has ended yet."""
        self._checked = False
        """True if the checkpoint has been compared with the options."""

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        options, self._is_new = self._options, True
        asked = at_offsets(options.starting_offsets or "latest", options.event_types, self._hub.since)
        starts = beginning(asked, self._look(), fail_on_loss=options.fail_on_data_loss)
        reset = None if self._mirror is None else self._mirror.newest()
        return encode_places(add_versions(opening(starts), self._versions, reset))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return what a micro-batch takes at most."""
        return ReadMaxRows(self._options.max_events_per_trigger)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends; *start* itself when there is nothing new."""
        places = decode_places(start)
        self._check(places)
        rewound, reset = self._mirror.rewound(places) if self._mirror else ({}, find_newest_reset(places))
        heads = self._heads(rewound)
        begins = {name: place for name, place in {**places, **rewound}.items() if name in heads}
        wanted, fails = events_max(limit), self._options.fail_on_data_loss
        end = next_end(begins, heads, wanted, fail_on_loss=fails, rewound=rewound)
        if self._mirror:
            self._mirror.tell(begins, at_once=end is None or self._target is not None)
        if end is not None and not rewound and self._target is None and self._holds(places, end):
            return start
        if end is None:
            return start
        return encode_places(find_unwanted_places(places, heads) | add_versions(end, self._versions, reset))

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the feeds end now: the query ends there, whatever else comes."""
        self._target = self._look()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the feeds ended when last seen, for the query's progress."""
        if self._seen is None:
            return None
        return encode_places({event_type: FeedPlace(ends.epoch, ends.nexts) for event_type, ends in self._seen.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch; the same events whenever it is planned again."""
        begins, ends = decode_places(start), decode_places(end)
        self._check(ends)  # A micro-batch that is run again comes before any other.
        ranges = ranges_between(begins, ends)
        tasks = plan_tasks(
            ranges, min_tasks=self._options.min_partitions, cores=cores(), splits=self._options.split_partitions
        )
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return read_task(self._options, self._columns, partition.value)

    def _check(self, places: Mapping[str, FeedPlace]) -> None:
        if not self._checked:
            check_checkpoint(places, self._options, self._versions, is_new=self._is_new)
            self._checked = True

    def _holds(self, start: Mapping[str, FeedPlace], end: Mapping[str, FeedPlace]) -> bool:
        return self._holding.holds(sum(each.events for each in ranges_between(start, end)))

    def _heads(self, rewound: Mapping[str, FeedPlace]) -> dict[str, Heads]:
        """Return where the micro-batch may end at most. Where resets lead has been there: heads are not before it."""
        if self._target is None:
            return self._look()
        self._target = {name: raise_heads(ends, rewound.get(name)) for name, ends in self._target.items()}
        return self._target

    def _look(self) -> dict[str, Heads]:
        self._seen = {event_type: self._hub.heads(event_type) for event_type in self._options.event_types}
        return self._seen
