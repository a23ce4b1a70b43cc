"""Where Spark looks for format("messagedb"): it imports all modules named `pyspark_…` and takes its `DefaultSource`."""

from penstock.spark.foreign.source import CategorySource as DefaultSource

__all__ = ["DefaultSource"]
