"""Spark's types of typed events, as Arrow's and back. Arrow is loaded when it is needed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import types
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructType

from penstock.errors import BadParameter

if TYPE_CHECKING:
    import pyarrow as pa

_SIMPLE = (
    types.BooleanType,
    types.ByteType,
    types.DateType,
    types.DoubleType,
    types.IntegerType,
    types.LongType,
    types.ShortType,
    types.StringType,
    types.TimestampType,
)


def arrow_type(kind: StructType) -> "pa.StructType":
    """Return the type of Arrow for typed events, which `check_type` takes."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


def spark_type(type: "pa.StructType") -> StructType:
    """Return Spark's type for typed events.

    >>> import pyarrow as pa
    >>> spark_type(pa.struct({"id": pa.int64(), "at": pa.timestamp("us", tz="UTC")})).simpleString()
    'struct<id:bigint,at:timestamp>'
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([*type]))


def leaves(kind: DataType, name: str) -> Iterator[tuple[str, DataType]]:
    """Yield the simple types within *kind*, which has a *name*, with names as in `data.lines[].price`, `data.prices{}`.

    >>> kind = StructType().add("prices", MapType(StringType(), DecimalType(9, 2)))
    >>> [(name, each.simpleString()) for name, each in leaves(kind, "data")]
    [('data.prices{}', 'decimal(9,2)')]
    """
    match kind:
        case StructType():
            for field in kind.fields:
                yield from leaves(field.dataType, f"{name}.{field.name}")
        case ArrayType():
            yield from leaves(kind.elementType, f"{name}[]")
        case MapType():
            yield from leaves(kind.valueType, f"{name}{{}}")
        case _:
            yield name, kind


def check_type(kind: DataType, name: str = "data") -> None:
    """Check the type of typed events; *name* is what an error calls it.

    Raises:
        BadParameter: no JSON is of that type.
    """
    match kind:
        case StructType():
            for field in kind.fields:
                check_type(field.dataType, f"{name}.{field.name}")
        case ArrayType():
            check_type(kind.elementType, f"{name}[]")
        case MapType() if isinstance(kind.keyType, StringType):
            check_type(kind.valueType, f"{name}{{}}")
        case DecimalType():
            return
        case _ if type(kind) in _SIMPLE:
            return
        case _:
            allowed = "string, bigint, int, smallint, tinyint, double, decimal, boolean, timestamp, date, and arrays, "
            allowed += "maps from string, and structs of these"
            given = f"{name} {kind.simpleString()}"
            raise BadParameter(
                f"there is no JSON for {given}; allowed: {allowed}", parameter="schema", value=given, allowed=allowed
            )
