"""The columns that a query sees, in Spark's types. Spark asks for them before anything is read: no Arrow here."""

from typing import Final

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

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
