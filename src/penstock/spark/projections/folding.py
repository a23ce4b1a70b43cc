"""Folds events into rows on the executors: rows that are there come in beside the events, under the same keys."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.core.stream_name import stream_name
from penstock.processing.projections.columns import key_of_text
from penstock.processing.projections.keyed import Entry
from penstock.processing.projections.projection import Projection
from penstock.processing.projections.table import Key, Row
from penstock.processing.sources.feed_position import encode_tranche
from penstock.spark.processors.calling import by_stream
from penstock.spark.processors.events import Events
from penstock.spark.processors.plan import Plan
from penstock.spark.processors.reading import EVENTS, Read

STANDING: Final = -1
"""The place of what is no event, but a row that is there: `data` is its state, `headers` its positions."""
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
class KeyedRead:
    """Reads the tasks of a plan; the streams of its events are the keys of their rows, as JSON."""

    plan: Plan
    projection: Projection[Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the events that belong to a row; see `Read`."""
        for batch in Read(self.plan)(batches):
            if batch.num_rows:
                yield self._keyed(batch)

    def _keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        tranche = encode_tranche(*self.plan.places[batch.column("place")[0].as_py()])
        events = Events(pa.Table.from_batches([batch]), 0, batch.num_rows, tranche)
        texts: dict[Key, str] = {}
        names: list[str | None] = []
        for event in events:
            key = self.projection.key_of(event)
            if key is not None and key not in texts:
                texts[key] = _encode(key).decode()
            names.append(None if key is None else texts[key])
        keys = pa.array(names, pa.string())
        made = batch.set_column(EVENTS.get_field_index("stream"), EVENTS.field("stream"), keys)
        return made.filter(keys.is_valid()) if keys.null_count else made


@dataclass(frozen=True)
class FoldAll:
    """Folds the events of a partition into their rows, of which it has all."""

    plan: Plan
    projection: Projection[Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, changed or not, as `ROWS`."""
        table = pa.Table.from_batches(batches, EVENTS)
        if not table.num_rows:
            return
        rows = list(self._rows(table))
        columns = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, ROWS, strict=True)], schema=ROWS
        )

    def _rows(self, table: pa.Table) -> Iterator[tuple[Any, ...]]:
        ordered, starts = by_stream(table)
        firsts = pa.array(starts[:-1])
        keys = ordered.column("stream").take(firsts).to_pylist()
        places = ordered.column("place").take(firsts).to_pylist()
        at = 0
        while at < len(keys):
            end = at
            while end < len(keys) and keys[end] == keys[at]:
                end += 1
            spans = [(places[number], starts[number], starts[number + 1]) for number in range(at, end)]
            yield self._row(ordered, keys[at], spans)
            at = end

    def _row(self, ordered: pa.Table, text: str, spans: Iterable[tuple[int, int, int]]) -> tuple[Any, ...]:
        key = key_of_text(self.projection.table.key, text)
        row: Row | None = None
        is_changed, failed, told = False, None, None
        for place, start, stop in spans:
            if place == STANDING:
                row = standing(ordered.slice(start, 1), self.projection)
                continue
            tranche = encode_tranche(*self.plan.places[place])
            events = self._under_own_names(Events(ordered, start, stop, tranche), *self.plan.places[place])
            entries = [Entry(text, event.index, event.next, key, tranche, event) for event in events]
            folded, wrong, error = self.projection.fold(row, tranche, entries)
            if folded is not None:
                row, is_changed = folded, True
            if wrong is not None:
                failed, told = tranche, f"{tranche} at {wrong.index}: {type(error).__name__}: {error}"
        if row is None:
            return text, None, None, False, failed, told
        state = None if row.state is None else _encode(row.state).decode()
        return text, state, _encode(row.positions).decode(), is_changed, failed, told

    def _under_own_names(self, events: Events, event_type: str, partition: int) -> Events:
        """Have events say again which stream they are of: they were shuffled under the names of their rows."""
        is_hashed = event_type in self.plan.hashed
        for event in events:
            event.stream = stream_name(event_type, partition, event.key, is_hashed=is_hashed)
        return events


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
        pa.array(keys, pa.string()),
        pa.array([STANDING] * count, pa.int32()),
        pa.array([False] * count),
        pa.array([0] * count, pa.int64()),
        pa.nulls(count, pa.string()),
        pa.array([""] * count),
        pa.array(positions, pa.string()),
        pa.array(states, pa.string()),
        pa.array([0] * count, pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=EVENTS)
