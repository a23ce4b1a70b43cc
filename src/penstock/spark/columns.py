"""The columns that a query sees, and how they are cut from the hub's Arrow pages."""

from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import BadParameter

HEADERS: Final = "headers"
_MAP: Final = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))
_decode_headers: Final = msgspec.json.Decoder(dict[str, str]).decode


class _Kind(NamedTuple):
    spark: DataType
    arrow: Any
    nullable: bool


_COLUMNS: Final = {
    "event_type": _Kind(StringType(), pa.string(), False),
    "partition": _Kind(IntegerType(), pa.int32(), False),
    "offset": _Kind(LongType(), pa.int64(), False),
    "key": _Kind(StringType(), pa.string(), True),
    HEADERS: _Kind(MapType(StringType(), StringType()), _MAP, True),
    "data": _Kind(StringType(), pa.string(), False),
    "received_at": _Kind(TimestampType(), pa.timestamp("us", tz="UTC"), False),
    "kind": _Kind(StringType(), pa.string(), False),
}


class Column(NamedTuple):
    """A column that a query wants."""

    name: str
    nullable: bool


def source_schema(*, include_headers: bool) -> StructType:
    """Return all columns of the source."""
    return StructType(
        [
            StructField(name, kind.spark, kind.nullable)
            for name, kind in _COLUMNS.items()
            if name != HEADERS or include_headers
        ]
    )


def wanted_columns(schema: StructType, *, include_headers: bool) -> tuple[Column, ...]:
    """Return the columns of *schema*, which may be some of the source's: a query that needs fewer is faster.

    Raises:
        BadParameter: there is no such column, or it has another type.
    """
    there = source_schema(include_headers=include_headers)
    for field in schema.fields:
        if field.name not in there.names or there[field.name].dataType != field.dataType:
            given = f"{field.name} {field.dataType.simpleString()}"
            allowed = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in there.fields)
            raise BadParameter(
                f"there is no column {given}; there are: {allowed}", parameter="schema", value=given, allowed=allowed
            )
    return tuple(Column(field.name, field.nullable) for field in schema.fields)


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema that Spark expects of *columns*."""
    return pa.schema([pa.field(column.name, _COLUMNS[column.name].arrow, column.nullable) for column in columns])


class Shape:
    """Cuts batches of the hub's into those that Spark takes. Holds Arrow values: made where it is used."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._names = pa.array([], pa.string())

    def __call__(self, batch: pa.RecordBatch, event_type: str) -> pa.RecordBatch:
        """Return the wanted columns of *batch*, whose events are of *event_type*, without copying them."""
        arrays = [self._array(batch, column.name, event_type) for column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, batch: pa.RecordBatch, name: str, event_type: str) -> pa.Array:
        if name == "event_type":
            return self._repeated(event_type, batch.num_rows)
        column = batch.column(name)
        if name == "kind" and column.null_count:
            if column.null_count == batch.num_rows:
                return self._repeated(event_type, batch.num_rows)
            return pc.fill_null(column, event_type)
        return headers_map(column) if name == HEADERS else column

    def _repeated(self, text: str, count: int) -> pa.Array:
        if len(self._names) < count or self._names[0].as_py() != text:
            self._names = pa.repeat(pa.scalar(text, pa.string()), count)
        return self._names[:count]


def headers_map(texts: pa.Array) -> pa.Array:
    """Return JSON objects as maps."""
    return pa.array([None if text is None else list(_decode_headers(text).items()) for text in texts.to_pylist()], _MAP)
