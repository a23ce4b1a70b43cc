"""The columns that a query sees, in Spark's types."""

from typing import Final

from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField, StructType

from penstock.spark.columns import DATA, HEADERS

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
