"""The columns that a query sees, in Spark's types.

Spark asks for them before anything is read, so Arrow is not loaded here.
"""

from collections.abc import Mapping
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
from penstock.spark.arrow_types import check_type
from penstock.spark.options import SourceOptions, bad_option
from penstock.typed import RESCUED

HEADERS: Final = "headers"
DATA: Final = "data"
JSON: Final = "json"
"""The event as it is, beside its typed columns."""
VERSIONS: Final = "penstock.schemas"
"""Metadata of the typed events' column: the versions of the schemas that it was made of, by event type."""


class Registered(NamedTuple):
    """The registry's description of events."""

    columns: StructType
    versions: Mapping[str, str]
    """Of their schemas, by event type."""


class _Kind(NamedTuple):
    type: DataType
    nullable: bool


_EVENT: Final = _Kind(StringType(), False)
_COLUMNS: Final = {
    "event_type": _Kind(StringType(), False),
    "partition": _Kind(IntegerType(), False),
    "offset": _Kind(LongType(), False),
    "key": _Kind(StringType(), True),
    HEADERS: _Kind(MapType(StringType(), StringType()), True),
    DATA: _EVENT,
    RESCUED: _Kind(StringType(), True),
    JSON: _EVENT,
    "received_at": _Kind(TimestampType(), False),
    "kind": _Kind(StringType(), False),
}
_TYPED: Final = frozenset([RESCUED, JSON])


class QueryColumn(NamedTuple):
    """A column that a query wants."""

    name: str
    nullable: bool
    events: StructType | None = None
    """Of the typed events: what they are."""


def source_schema(options: SourceOptions, events: Registered | None = None) -> StructType:
    """Return all columns of the source; *events* are those of typed events."""
    left_out = {JSON} if options.payload == "typed" else set() if options.payload == "both" else _TYPED
    left_out |= set() if options.include_headers else {HEADERS}
    fields = [StructField(name, *kind) for name, kind in _COLUMNS.items() if name not in left_out]
    if events is not None:
        typed = StructField(DATA, events.columns, True, {VERSIONS: {**events.versions}})
        fields = [typed if field.name == DATA else field for field in fields]
    return StructType(fields)


def choose_columns(schema: StructType, options: SourceOptions) -> tuple[QueryColumn, ...]:
    """Return the columns of *schema*, which may be some of the source's: a query that needs fewer is faster.

    Typed events may be any struct: its members are looked for.

    Raises:
        BadParameter: there is no such column, or it has another type.
    """
    there = source_schema(options)
    is_typed = options.payload != "json"
    columns = []
    for field in schema.fields:
        if is_typed and field.name == DATA and isinstance(field.dataType, StructType) and field.dataType.fields:
            check_type(field.dataType)
            columns.append(QueryColumn(DATA, True, field.dataType))
        elif (
            field.name in there.names
            and there[field.name].dataType == field.dataType
            and not (is_typed and field.name == DATA)
        ):
            columns.append(QueryColumn(field.name, field.nullable))
        else:
            kinds = {each.name: each.dataType.simpleString() for each in there.fields}
            raise no_column(field, kinds | ({DATA: "struct<…>"} if is_typed else {}))
    if any(each.name == RESCUED for each in columns) and not any(each.events for each in columns):
        raise bad_option("schema", schema.simpleString(), f"{DATA} beside {RESCUED}, which has what does not fit there")
    return tuple(columns)


def some_of(there: StructType, schema: StructType) -> tuple[QueryColumn, ...]:
    """Return the columns of *schema*, which may be some of those that are *there*: fewer are read faster.

    Raises:
        BadParameter: there is no such column, or it has another type.
    """
    for field in schema.fields:
        if field.name not in there.names or there[field.name].dataType != field.dataType:
            raise no_column(field, {each.name: each.dataType.simpleString() for each in there.fields})
    return tuple(QueryColumn(field.name, field.nullable) for field in schema.fields)


def versions_of(schema: StructType) -> Mapping[str, str]:
    """Return the versions of the schemas that typed events were made of, by event type; none where a user says them."""
    found: Mapping[str, str] = schema[DATA].metadata.get(VERSIONS, {}) if DATA in schema.names else {}
    return found


def no_column(field: StructField, kinds: Mapping[str, str]) -> BadParameter:
    """Return the error that refuses a column; *kinds* are those that there are, and their types."""
    given = f"{field.name} {field.dataType.simpleString()}"
    allowed = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    wrong = f"column {given} has another type" if field.name in kinds else f"there is no column {given}"
    return BadParameter(f"{wrong}; there are: {allowed}", parameter="schema", value=given, allowed=allowed)
