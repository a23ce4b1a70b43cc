"""How the columns that a query wants are cut from the hub's Arrow pages."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.log.arrow import SCHEMA
from penstock.spark.arrow_types import arrow_type
from penstock.spark.columns import DATA, HEADERS, JSON, QueryColumn
from penstock.typed import RESCUED, TYPED
from penstock.typed.decoding import TypedDecoder

_MAP: Final = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))
_TYPES: Final = {field.name: field.type for field in SCHEMA} | {
    "event_type": pa.string(),
    HEADERS: _MAP,
    JSON: pa.string(),
    RESCUED: pa.string(),
}
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


class Shape:
    """Cuts batches of the hub's into those that Spark takes. Holds Arrow values: made where it is used."""

    def __init__(self, columns: tuple[QueryColumn, ...]) -> None:
        """Cut *columns*.

        Raises:
            BadParameter: there is no JSON for a type of theirs.
        """
        self._columns = columns
        names = {column.name for column in columns}
        events = next((column.events for column in columns if column.events), None)
        self._typed = None if events is None else TypedDecoder(arrow_type(events), rescues=RESCUED in names)
        types = _TYPES | ({} if self._typed is None else {DATA: self._typed.type})
        self.schema = pa.schema([pa.field(column.name, types[column.name], column.nullable) for column in columns])
        self._names = pa.array([], pa.string())

    def __call__(self, batch: pa.RecordBatch, event_type: str) -> pa.RecordBatch:
        """Return the wanted columns of *batch*, whose events are of *event_type*, without copying those that it has.

        Typed events that *batch* has already, in a column `typed`, are not decoded.
        """
        texts = batch.column(DATA)
        made = {JSON: texts}
        if TYPED in batch.schema.names:
            made[DATA] = batch.column(TYPED)
            if RESCUED in batch.schema.names:
                made[RESCUED] = batch.column(RESCUED)
        elif self._typed is not None:
            made[DATA], made[RESCUED] = self._typed(texts)
        arrays = [
            made[column.name] if column.name in made else self._array(batch, column.name, event_type)
            for column in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, batch: pa.RecordBatch, name: str, event_type: str) -> pa.Array:
        if name == "event_type":
            return self._repeat(event_type, batch.num_rows)
        column = batch.column(name)
        if name == "kind" and column.null_count:
            if column.null_count == batch.num_rows:
                return self._repeat(event_type, batch.num_rows)
            return pc.fill_null(column, event_type)
        return headers_map(column) if name == HEADERS else column

    def _repeat(self, text: str, count: int) -> pa.Array:
        if len(self._names) < count or self._names[0].as_py() != text:
            self._names = pa.repeat(pa.scalar(text, pa.string()), count)
        return self._names[:count]


def find_needed_columns(columns: Collection[QueryColumn]) -> set[str]:
    """Return which columns of the hub's batches the wanted *columns* are cut from."""
    names = {column.name for column in columns}
    return names | ({DATA} if names & {JSON, RESCUED} else set())


def headers_map(texts: pa.Array) -> pa.Array:
    """Return JSON objects as maps."""
    return pa.array([None if text is None else list(_decode_headers(text).items()) for text in texts.to_pylist()], _MAP)


def select_columns(rows: pa.RecordBatch, columns: Sequence[QueryColumn]) -> pa.RecordBatch:
    """Return *columns* of *rows*, with the nullability of the query's columns."""
    fields = [rows.schema.field(each.name).with_nullable(each.nullable) for each in columns]
    return pa.RecordBatch.from_arrays([rows.column(each.name) for each in fields], schema=pa.schema(fields))
