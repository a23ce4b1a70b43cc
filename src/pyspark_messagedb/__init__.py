"""Where Spark looks for format("messagedb"): it imports all modules named `pyspark_…` and takes its `DefaultSource`."""

from penstock.spark.messagedb.source import CategoryDataSource as DefaultSource

__all__ = ["DefaultSource"]
