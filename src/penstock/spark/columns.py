"""The columns that a query sees, in Spark's types.

Spark asks for them before anything is read, so Arrow is not loaded here.
"""

from typing import Final, NamedTuple

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


class _Kind(NamedTuple):
    type: DataType
    nullable: bool


_COLUMNS: Final = {
    "event_type": _Kind(StringType(), False),
    "partition": _Kind(IntegerType(), False),
    "offset": _Kind(LongType(), False),
    "key": _Kind(StringType(), True),
    HEADERS: _Kind(MapType(StringType(), StringType()), True),
    "data": _Kind(StringType(), False),
    "received_at": _Kind(TimestampType(), False),
    "kind": _Kind(StringType(), False),
}


class Column(NamedTuple):
    """A column that a query wants."""

    name: str
    nullable: bool


def source_schema(*, include_headers: bool) -> StructType:
    """Return all columns of the source."""
    return StructType(
        [
            StructField(name, kind.type, kind.nullable)
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
