"""The columns that a query sees, in Spark's types. Spark asks for them before anything is read: no Arrow here."""

from typing import Final

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.spark.columns import Column, no_column

SCHEMA: Final = StructType(
    [
        StructField("event_type", StringType(), False),
        StructField("partition", StringType(), False),
        StructField("cursor", StringType(), False),
        StructField("place", LongType(), False),
        StructField("id", StringType(), True),
        StructField("data", StringType(), False),
        StructField("received_at", TimestampType(), True),
    ]
)


def wanted_columns(schema: StructType) -> tuple[Column, ...]:
    """Return the columns of *schema*, which may be some of the source's.

    Raises:
        BadParameter: there is no such column, or it has another type.
    """
    for field in schema.fields:
        if field.name not in SCHEMA.names or SCHEMA[field.name].dataType != field.dataType:
            raise no_column(field, {each.name: each.dataType.simpleString() for each in SCHEMA.fields})
    return tuple(Column(field.name, field.nullable) for field in schema.fields)
