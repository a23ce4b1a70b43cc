"""Rows of a projection in files: typed columns, and the state from which folds continue.

This module is sent to executors.
"""

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.errors import BadParameter
from penstock.processing.projections.columns import Column, Kind, declare_columns, parse_key
from penstock.processing.projections.projection import Projection
from penstock.processing.projections.table import Table
from penstock.spark.projections.folding import as_events

OURS: Final = "penstock_"
"""How columns begin that are neither the key's nor the state's, which may not begin so."""
KEY: Final = "penstock_key"
STATE: Final = "penstock_state"
POSITION: Final = "penstock_position"
DELETED: Final = "penstock_deleted"
ERROR: Final = "penstock_error"
FAILED: Final = "penstock_failed"
CHANGED: Final = "penstock_changed"
_DIGITS: Final = "numbers of up to 20 digits before the point, and 18 behind it"
_TYPES: Final[Mapping[Kind, tuple[str, pa.DataType]]] = {
    "integer": ("bigint", pa.int64()),
    "real": ("double", pa.float64()),
    "text": ("string", pa.string()),
    "boolean": ("boolean", pa.bool_()),
    "bytes": ("binary", pa.binary()),
    "time": ("timestamp", pa.timestamp("us", tz="UTC")),
    "date": ("date", pa.date32()),
    "decimal": ("decimal(38,18)", pa.decimal128(38, 18)),
    # Said, so that it is noticed when a text becomes one.
    "json": ("string COMMENT 'JSON'", pa.string()),
}


def declare_file_columns(table: Table) -> dict[str, str]:
    """Return the columns of a projection as they are in files, by name; its key has an order there, as `KEY` has."""
    types = {column.name: _TYPES[column.kind][0] for column in (*table.key, *table.columns)}
    return declare_columns(types, (column.name for column in table.key))


def columns_sql(table: Table) -> str:
    """Return the columns of a projection's rows in files, as Spark has them declared."""
    typed = ", ".join(f"`{column.name}` {_TYPES[column.kind][0]}" for column in (*table.key, *table.columns))
    own = f"{KEY} string, {STATE} string, {POSITION} string, {DELETED} boolean, {CHANGED} boolean"
    return f"{typed}, {own}, {FAILED} string, {ERROR} string"


@dataclass(frozen=True)
class TypedRows:
    """Makes columns of rows on the executors."""

    projection: Projection[Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the key's and the state's columns, and the fold's own columns."""
        table = self.projection.table
        for batch in batches:
            texts = zip(batch.column("key").to_pylist(), batch.column("positions").to_pylist(), strict=True)
            none = (None,) * len(table.key)  # A failure, which is no row, may have a key that no row can have.
            keys = [none if positions is None else parse_key(table.key, text) for text, positions in texts]
            told = batch.column("state").to_pylist()
            states = [None if text is None else msgspec.json.decode(text, type=table.state) for text in told]
            arrays = {column.name: _array(column, values) for column, values in _by_column(table.key, keys)}
            for column in table.columns:
                values = [None if state is None else getattr(state, column.name) for state in states]
                arrays[column.name] = _array(column, values)
            arrays |= {KEY: batch.column("key"), STATE: batch.column("state"), POSITION: batch.column("positions")}
            arrays |= {DELETED: batch.column("state").is_null(), CHANGED: batch.column("is_changed")}
            arrays |= {FAILED: batch.column("failed"), ERROR: batch.column("error")}
            yield pa.RecordBatch.from_pydict(arrays)


@dataclass(frozen=True)
class Unfit:
    """Tells why a state cannot be a row in files, where numbers have fewer digits than in databases."""

    columns: Sequence[Column]
    anywhere: Callable[[Any], Exception | None]
    """Tells why it can be none anywhere."""

    def __call__(self, state: Any) -> Exception | None:
        """Return why; None: it can."""
        wrong = self.anywhere(state)
        for column in self.columns if wrong is None else ():
            if column.kind == "decimal":
                try:
                    # It may be a number that is no decimal yet.
                    _array(column, [msgspec.convert(getattr(state, column.name), Decimal | None)])
                except pa.ArrowException:
                    allowed = f"{_DIGITS}, as files keep them, and no other {column.name}"
                    return BadParameter(parameter="state", value=reprlib.repr(state), allowed=allowed)
        return wrong


def _by_column(columns: Iterable[Column], keys: list[tuple[Any, ...]]) -> Iterator[tuple[Column, list[Any]]]:
    for at, column in enumerate(columns):
        yield column, [key[at] for key in keys]


def _array(column: Column, values: list[Any]) -> pa.Array:
    if column.kind == "json":
        values = [None if value is None else msgspec.json.encode(value).decode() for value in values]
    return pa.array(values, _TYPES[column.kind][1])


def as_standing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows that are there in the shape of events, of KEY, STATE and POSITION."""
    for batch in batches:
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        # What tells of a failure has no positions: it is no row.
        kept = [row for row in rows if row[2] is not None]
        if kept:
            yield from as_events(kept).to_batches()
