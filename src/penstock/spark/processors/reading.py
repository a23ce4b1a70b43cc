"""Events by column, as executors read them in a round, under the names of their streams."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, overload

import pyarrow as pa
import pyarrow.compute as pc

from penstock.processing.stream_event import StreamEvent


@dataclass(frozen=True)
class Again:
    """A span that was not done in an earlier round, and is to be handled now."""

    place: int
    """Which of the plan's places it lies in."""
    start: int
    next: int


@dataclass(frozen=True)
class ProcessingPlan:
    """Selects the streams to handle, and those to count only. It is sent to executors, so it has plain values."""

    places: tuple[str, ...]
    """Tranches; rows name them by their number here."""
    numberings: tuple[str, ...]
    """By place, what numbers the events that are read there: see `StreamEvent.numbering`."""
    again: Mapping[str, Again] = field(default_factory=dict)
    """By stream: its events that are handled, instead of new ones."""
    waiting: frozenset[str] = frozenset()
    """Streams with earlier events than the new ones, which wait."""
    events_per_call: int = 10_000
    timeout: float | None = None
    """Seconds that a call may last before its process is killed."""
    partitions: int = 1
    """Into how many tasks streams are shuffled."""

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each place."""
        return {place: number for number, place in enumerate(self.places)}


EVENTS: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("place", pa.int32()),
        pa.field("again", pa.bool_()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("headers", pa.string()),
        pa.field("data", pa.string()),
        pa.field("received", pa.int64()),
    ]
)
"""`data` is null where an event only has to be counted. `offset` is its index, whatever the source calls that."""
EVENTS_SQL: Final = (
    "stream string, place int, again boolean, offset bigint, key string, kind string, headers string, data string, "
    "received bigint"
)
_FORMATS: Final[Mapping[pa.DataType, Literal["i", "q"]]] = {pa.int32(): "i", pa.int64(): "q"}


def numbers(column: pa.ChunkedArray) -> "memoryview[int]":
    """Return the whole numbers of a column without nulls, of 32 or 64 bits; those of one chunk where they lie.

    NumPy would do the same, but executors need not have it.
    """
    if not len(column):
        return memoryview(b"").cast("q")
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    values = memoryview(array.buffers()[1]).cast(_FORMATS[array.type])
    return values[array.offset : array.offset + len(array)]


def select_needed(events: pa.RecordBatch, plan: ProcessingPlan, *, again: bool) -> pa.RecordBatch:
    """Return *events* without unneeded ones: of events read before, those of streams outside the plan.

    New events that only wait have no `data`.
    """
    streams = events.column("stream")
    if again:
        return events.filter(pc.is_in(streams, pa.array(list(plan.again), pa.string())))
    if not plan.waiting:
        return events
    waits = pc.is_in(streams, pa.array(list(plan.waiting), pa.string()))
    data = pc.if_else(waits, pa.scalar(None, pa.string()), events.column("data"))
    return events.set_column(EVENTS.get_field_index("data"), EVENTS.field("data"), data)


class Events(Sequence[StreamEvent]):
    """Events of one stream that follow each other, in columns.

    Args:
        table: The columns of `reading.EVENTS`.
        start, stop: Its rows.
        plan: That of the round.
        place: Which of its places they were read at.
        behind: How many of the same stream come next in the table.
    """

    def __init__(
        self, table: pa.Table, start: int, stop: int, plan: ProcessingPlan, place: int, *, behind: int = 0
    ) -> None:
        self._table = table
        self._start = start
        self._stop = stop
        self._tranche, self._numbering = plan.places[place], plan.numberings[place]
        self._behind = behind
        self._made: list[StreamEvent] | None = None

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, at: int) -> StreamEvent: ...
    @overload
    def __getitem__(self, at: slice) -> list[StreamEvent]: ...
    def __getitem__(self, at: int | slice) -> StreamEvent | list[StreamEvent]:
        return self._events()[at]

    def __iter__(self) -> Iterator[StreamEvent]:
        return iter(self._events())

    def below(self, index: int | None) -> int:
        """Return how many of them, and of those behind them, have a lower index; None: all of them are done."""
        if index is None:
            return len(self)
        indices, end = numbers(self._table.column("offset")), self._stop + self._behind
        return bisect_left(indices, index, self._start, end) - self._start

    def _events(self) -> list[StreamEvent]:
        if self._made is None:
            part = self._table.slice(self._start, len(self))
            data = part.column("data").cast(pa.binary())
            columns: list[Any] = [part.column(name) for name in ("stream", "offset", "kind")]
            columns += [data, part.column("key"), part.column("headers")]
            values = [column.to_pylist() for column in columns]
            tranches, numberings = [self._tranche] * len(self), [self._numbering] * len(self)
            self._made = list(map(StreamEvent, *values, tranches, part.column("received").to_pylist(), numberings))
        return self._made
