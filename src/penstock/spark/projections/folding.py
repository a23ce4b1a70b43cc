"""Folds events into rows on the executors: rows that are there come in beside the events, under the same keys."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadParameter
from penstock.processing.projections.columns import parse_key
from penstock.processing.projections.projection import NO_KEY, Fold, KeyedEvent, Projection
from penstock.processing.projections.table import Key, Row
from penstock.processing.stream_event import StreamEvent
from penstock.spark.processors.calling import by_stream
from penstock.spark.processors.reading import EVENTS, EVENTS_SQL, Events, ProcessingPlan

STANDING: Final = -1
"""The place of a stored row, which is no event: `data` is its state, `headers` its positions."""
KEYED: Final = EVENTS.append(pa.field("row", pa.string()))
"""Events with the keys of their rows, as JSON."""
KEYED_SQL: Final = f"{EVENTS_SQL}, row string"
ROWS: Final = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("state", pa.string()),
        pa.field("positions", pa.string()),
        pa.field("is_changed", pa.bool_()),
        pa.field("failed", pa.string()),
        pa.field("error", pa.string()),
    ]
)
ROWS_SQL: Final = "key string, state string, positions string, is_changed boolean, failed string, error string"
_encode: Final = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True)
class RowFinder:
    """Finds the rows of events. It is sent to executors."""

    plan: ProcessingPlan
    projection: Projection[Any]

    def __call__(self, events: pa.RecordBatch) -> pa.RecordBatch:
        """Return the events that belong to a row, as `KEYED`. They are of one tranche or of several."""
        texts: dict[Key, str] = {}
        names: list[str | None] = []
        for event in self._events(events):
            key = self._key_of(event)
            if key is not None and key not in texts:
                texts[key] = _encode(key).decode()
            names.append(None if key is None else texts[key])
        keys = pa.array(names, pa.string())
        made = events.append_column(KEYED.field("row"), keys)
        return made.filter(keys.is_valid()) if keys.null_count else made

    def _key_of(self, event: StreamEvent) -> Key | None:
        try:
            return self.projection.find_key(event)
        except Exception:  # noqa: BLE001 - It is a failure of this event: who folds it tells what it is.
            return NO_KEY

    def _events(self, events: pa.RecordBatch) -> Iterator[StreamEvent]:
        places = events.column("place")
        ends = pc.run_end_encode(places).run_ends.to_pylist()
        table = pa.Table.from_batches([events])
        for start, end in pairwise([0, *ends]):
            yield from Events(table, start, end, self.plan, places[start].as_py())


@dataclass(frozen=True)
class FoldAll:
    """Folds the events of a partition into their rows, of which it has all."""

    plan: ProcessingPlan
    projection: Projection[Any]
    fold: Fold

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, changed or not, as `ROWS`."""
        table = pa.Table.from_batches(batches, KEYED)
        if not table.num_rows:
            return
        rows = list(self._rows(table))
        columns = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, ROWS, strict=True)], schema=ROWS
        )

    def _rows(self, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        ordered, starts = by_stream(table, "row")
        firsts = pa.array(starts[:-1])
        keys = ordered.column("row").take(firsts).to_pylist()
        places = ordered.column("place").take(firsts).to_pylist()
        at = 0
        while at < len(keys):
            end = at
            while end < len(keys) and keys[end] == keys[at]:
                end += 1
            spans = [(places[number], starts[number], starts[number + 1]) for number in range(at, end)]
            yield from self._row(ordered, keys[at], spans)
            at = end

    def _row(self, ordered: pa.Table, text: str, spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[Any, ...]]:
        """Yield the row, and one more for each tranche in which it fails: none of them may move on."""
        try:
            key = parse_key(self.projection.table.key, text)
        except BadParameter as refused:
            for place, start, stop in spans:
                tranche = self.plan.places[place]
                [event, *_] = Events(ordered, start, stop, self.plan, place)
                yield _failure(text, tranche, event.index, self._why(event, refused))
            return
        row: Row | None = None
        is_changed = False
        for place, start, stop in spans:
            if place == STANDING:
                row = standing(ordered.slice(start, 1), self.projection)
                continue
            tranche = self.plan.places[place]
            events = Events(ordered, start, stop, self.plan, place)
            entries = [KeyedEvent(text, event.index, event.next, key, tranche, event) for event in events]
            folded, wrong, error = self.fold(row, tranche, entries)
            if folded is not None:
                row, is_changed = folded, True
            if wrong is not None:
                yield _failure(text, tranche, wrong.index, error)
        if row is not None:
            state = None if row.state is None else _encode(row.state).decode()
            yield text, state, _encode(row.positions).decode(), is_changed, None, None

    def _why(self, event: StreamEvent, refused: BadParameter) -> Exception:
        """Return the reason why an event has no key: the exception of the key's function, or *refused*."""
        try:
            self.projection.find_key(event)
        except Exception as error:  # noqa: BLE001 - That is what is told.
            return error
        return refused


def _failure(text: str, tranche: str, index: int, error: Exception | None) -> tuple[Any, ...]:
    return text, None, None, False, tranche, f"{tranche} at {index}: {type(error).__name__}: {error}"


def standing(rows: pa.Table, projection: Projection[Any]) -> Row:
    """Return the row that is there."""
    state = rows.column("data")[0].as_py()
    positions = msgspec.json.decode(rows.column("headers")[0].as_py())
    return Row(None if state is None else msgspec.json.decode(state, type=projection.table.state), positions)


def as_events(rows: Iterable[tuple[str, str | None, str]]) -> pa.Table:
    """Return rows that are there, each with its key, its state and its positions in JSON, beside events."""
    keys, states, positions = zip(*rows, strict=True)
    count = len(keys)
    columns = [
        pa.array([""] * count),
        pa.array([STANDING] * count, pa.int32()),
        pa.array([False] * count),
        pa.array([0] * count, pa.int64()),
        pa.nulls(count, pa.string()),
        pa.array([""] * count),
        pa.array(positions, pa.string()),
        pa.array(states, pa.string()),
        pa.array([0] * count, pa.int64()),
        pa.array(keys, pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=KEYED)
