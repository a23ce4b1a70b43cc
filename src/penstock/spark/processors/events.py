"""The events of a stream as a handler is given them: made when they are asked for."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

from penstock.processing.stream_event import StreamEvent
from penstock.spark.processors.plan import ProcessingPlan
from penstock.spark.processors.reading import numbers


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
