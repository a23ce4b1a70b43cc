"""Where Spark looks for format("penstock"): it imports every module named `pyspark_…` and takes its `DefaultSource`."""

from penstock.spark.source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
