"""On how many cores Spark runs."""

from typing import Final

from pyspark.sql import SparkSession

UNKNOWN: Final = 8
"""Over Spark Connect there is no telling."""


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks go on at once."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - PySpark says in several ways that a session has no context.
        return UNKNOWN
