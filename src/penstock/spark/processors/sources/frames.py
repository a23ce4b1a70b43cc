"""The base of sources that Spark reads as a data frame, with tranches and indices as columns."""

import threading
from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from penstock.client.concurrency import Closing
from penstock.core.log.start import WORDS, Word
from penstock.errors import BadParameter
from penstock.processing.engine.tranche import Batch, Position, SourceItem
from penstock.processing.sources.source import ReadRequest
from penstock.spark.planning import WORTH_A_TASK
from penstock.spark.processors.reading import EVENTS, EVENTS_SQL, Events, ProcessingPlan, numbers, select_needed
from penstock.spark.processors.sources.source import Look, PlannedRead, Then, TrancheRange

COLUMNS: Final = ("tranche", "stream", "offset", "key", "kind", "headers", "data", "received")
"""The columns of rows, with the types of `reading.EVENTS`; the tranche is a name."""


@dataclass(frozen=True)
class AsEvents:
    """Makes events of rows. It is sent to executors."""

    plan: ProcessingPlan
    again: bool
    """True if they were read before."""
    then: Then | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows as `reading.EVENTS`, or what is made of these."""
        for batch in batches:
            events = select_needed(self._events(batch), self.plan, again=self.again)
            if events.num_rows:
                yield events if self.then is None else self.then.make(events)

    def _events(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        places = pa.array(self.plan.places, pa.string())
        arrays = {field.name: rows.column(field.name) for field in EVENTS if field.name in COLUMNS}
        arrays["place"] = pc.index_in(rows.column("tranche"), places)
        arrays["again"] = pa.repeat(pa.scalar(self.again), rows.num_rows)
        columns = [arrays[field.name].cast(field.type) for field in EVENTS]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


_START_ALLOWED: Final = "'earliest' or 'latest': this source does not say when an event was received"
LOOK_INTERVAL: Final = 0.5
"""The seconds between looks for events during a wait for them."""


class Head(NamedTuple):
    """The ends of a tranche."""

    first: int
    """An index at or below that of the first event that is there."""
    next: int
    """Above that of the last one."""


class FrameSource(Closing):
    """A source that Spark reads as a data frame. A position is the index that is wanted next.

    Args:
        start: Where a processor begins that has no position: at the `earliest` event, or behind the `latest` there is.

    Raises:
        BadParameter: *start* is none of these.
    """

    is_dense = False
    is_by_stream = False
    is_replayable = True
    passes_over_loss = False

    def __init__(self, start: Word) -> None:
        if start not in WORDS:
            raise BadParameter(parameter="start", value=start, allowed=_START_ALLOWED)
        self._start = start
        self._spark: SparkSession | None = None
        self._found: Mapping[str, Head] | None = None
        self._begun: Mapping[str, Head] = {}
        self._closed = threading.Event()

    @property
    def spark(self) -> SparkSession:
        """The session.

        Raises:
            BadParameter: it is not open.
        """
        if self._spark is None:
            raise BadParameter(parameter="source", value=type(self).__name__, allowed="one that is open in a session")
        return self._spark

    def open(self, spark: SparkSession) -> None:
        """Begin, in a session.

        Raises:
            BadParameter: it is open in one already.
        """
        if self._spark is not None:
            raise BadParameter(parameter="source", value=type(self).__name__, allowed="one for each processor")
        self._spark = spark

    @abstractmethod
    def heads(self) -> Mapping[str, Head]:
        """Look what there is now, by tranche."""

    @abstractmethod
    def stretch(self, tranche: str, start: int, end: int, events_max: int) -> TrancheRange | None:
        """Return a range of at most *events_max* events of a tranche from *start* on; the tranche ends at *end*."""

    def find_start(self, tranche: str, start: int, head: Head) -> int:  # noqa: ARG002 - Most have nothing to say.
        """Return where reading goes on in a tranche: at *start*, or where it can after events were lost.

        Raises:
            EventsLost: that is to fail.
        """
        return start

    @abstractmethod
    def rows(self, stretches: Sequence[TrancheRange]) -> DataFrame:
        """Return the events of stretches, which are not empty, in the columns `rows.COLUMNS`."""

    @abstractmethod
    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many events each tranche has behind its position now."""

    def look(self) -> Look:
        """Look what there is now."""
        found = self.heads()
        if self._found is None and self._start == "latest":
            self._begun = found
        self._found = found
        return _FrameLook(self, found)

    def tranches(self) -> Collection[str]:
        """Return the tranches that there were when it was looked last."""
        return [*self._load_heads()]

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where to begin in a tranche: at its start, if there are positions in others."""
        head = self._load_heads()[tranche]
        return self._begun[tranche].next if tranche in self._begun and not kept else head.first

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return what follows, read onto the driver."""
        while True:
            look = self.look()
            found = [look.stretch(tranche, want.position, want.events_max) for tranche, want in wants.items()]
            stretches = [each for each in found if each is not None]
            if stretches:
                return self._batches(stretches)
            if timeout <= 0 or self._closed.wait(min(timeout, LOOK_INTERVAL)):
                return []
            timeout -= LOOK_INTERVAL

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Return what a tranche has from an earlier index on."""
        found = self.look().stretch(tranche, want.position, want.events_max)
        return Batch(tranche, want.position, [], is_tail=True) if found is None else self._batches([found])[0]

    def close(self) -> None:
        """End; who is reading is woken."""
        self._closed.set()

    def _load_heads(self) -> Mapping[str, Head]:
        if self._found is None:
            self.look()
        return self._found or {}

    def _batches(self, stretches: Sequence[TrancheRange]) -> list[Batch]:
        tranches = tuple(each.tranche for each in stretches)
        plan = ProcessingPlan(tranches, tranches)
        rows = self.rows(stretches).toArrow().to_batches()
        table = pa.Table.from_batches(AsEvents(plan, again=False)(rows), EVENTS)
        ordered = table.sort_by([("place", "ascending"), ("offset", "ascending")])
        places = numbers(ordered.column("place"))
        found = []
        for number, each in enumerate(stretches):
            start, stop = bisect_left(places, number), bisect_right(places, number)
            items: list[SourceItem] = [*Events(ordered, start, stop, plan, number)]
            found.append(Batch(each.tranche, each.position, items, is_tail=each.is_tail))
        return found


@dataclass(frozen=True)
class _FrameLook:
    source: FrameSource
    heads: Mapping[str, Head]

    @property
    def tranches(self) -> Collection[str]:
        return [*self.heads]

    def check(self, positions: Mapping[str, Position]) -> None:
        """Do nothing: renumbered rows cannot be detected, and any index may be missing."""

    def stretch(self, tranche: str, position: Position | None, events_max: int) -> TrancheRange | None:
        if tranche not in self.heads:
            return None
        head = self.heads[tranche]
        start = int(self.source.beginning(tranche) if position is None else position)
        start = self.source.find_start(tranche, start, head)
        return self.source.stretch(tranche, start, head.next, events_max) if start < head.next else None

    def numbering(self, tranche: str) -> str:
        return tranche

    def reading(
        self, plan: ProcessingPlan, new: Sequence[TrancheRange], again: Sequence[TrancheRange], then: Then | None
    ) -> PlannedRead:
        columns = EVENTS_SQL if then is None else then.columns
        frames = [
            self.source.rows(stretches).mapInArrow(AsEvents(plan, is_again, then), columns)
            for stretches, is_again in ((new, False), (again, True))
            if stretches
        ]
        tasks = sum(1 + each.events // WORTH_A_TASK for each in (*new, *again))
        return PlannedRead(reduce(DataFrame.unionAll, frames), tasks)
