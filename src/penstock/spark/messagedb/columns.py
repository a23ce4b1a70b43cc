"""The columns that a query sees, in Spark's types, and where each comes from."""

from typing import Final, NamedTuple

from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType, TimestampType

CATEGORY: Final = "category"


class _Source(NamedTuple):
    type: DataType
    nullable: bool
    expression: str
    """In SQL, of the table; the category is known beforehand."""


_COLUMNS: Final = {
    CATEGORY: _Source(StringType(), False, ""),
    "stream": _Source(StringType(), False, "stream_name"),
    "position": _Source(LongType(), False, "position"),
    "global_position": _Source(LongType(), False, "global_position"),
    "kind": _Source(StringType(), False, "type"),
    "id": _Source(StringType(), False, "id::text"),
    "data": _Source(StringType(), True, "data::text"),
    "metadata": _Source(StringType(), True, "metadata::text"),
    "received_at": _Source(TimestampType(), False, '"time"'),
}
SCHEMA: Final = StructType([StructField(name, each.type, each.nullable) for name, each in _COLUMNS.items()])


def expression(name: str) -> str:
    """Return what has the value of a column, in SQL; of the category, nothing.

    >>> expression("data")
    'data::text'
    """
    return _COLUMNS[name].expression
