"""The columns that a query sees, in Spark's types."""

from typing import Final

from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField, StructType

from penstock.spark.columns import DATA, HEADERS, Column, no_column

PARTITION: Final = "partition"
NUMBER: Final = "number"
SCHEMA: Final = StructType(
    [
        StructField(PARTITION, IntegerType(), False),
        StructField(NUMBER, LongType(), False),
        StructField(HEADERS, MapType(StringType(), StringType()), True),
        StructField(DATA, StringType(), False),
    ]
)
"""All that there are."""


def remote_schema(*, include_headers: bool) -> StructType:
    """Return the columns of a query, which has headers if they are asked for."""
    return StructType([field for field in SCHEMA.fields if include_headers or field.name != HEADERS])


def wanted_columns(schema: StructType, *, include_headers: bool) -> tuple[Column, ...]:
    """Return the columns of *schema*, which may be some of the source's.

    Raises:
        BadParameter: there is no such column, or it has another type.
    """
    there = remote_schema(include_headers=include_headers)
    for field in schema.fields:
        if field.name not in there.names or there[field.name].dataType != field.dataType:
            raise no_column(field, {each.name: each.dataType.simpleString() for each in there.fields})
    return tuple(Column(field.name, field.nullable) for field in schema.fields)
